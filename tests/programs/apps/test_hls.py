# SPDX-License-Identifier: Apache-2.0
"""The window of the live playlists, as the real server gives it."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection, create_server

import pytest

from sojourn.apps.standins import hls
from sojourn.apps.standins.clip import Clip
from sojourn.apps.standins.ladder import DEFAULT
from sojourn.apps.standins.origin import HOST, Origin, Site
from sojourn.hardware.machine.place import Place

#: Segments of the clip: the broadcast ends with the last of them.
LAST = 30
Get = Callable[[str], str]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    folder = tmp_path_factory.mktemp("clip")
    (folder / "manifest.mpd").write_text("".join(f'<R codecs="avc1.64000{rung}"/>' for rung in range(len(DEFAULT))))
    return Clip(folder, DEFAULT, 1800, 30, 2 * LAST, tuple(rung.bps for rung in DEFAULT))


@pytest.fixture(scope="module")
def server(clip: Clip, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Get]]:
    """A folder for playlists and what the origin answers for a path in it."""
    run = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOJOURN_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("sojourn.apps.standins.origin.ensure_player", lambda: run)
        with create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        origin = Origin.start(Place("here"), "127.0.0.1", Site(run, clip.folder, run / "live"), run, port=port)
    (run / "live").mkdir()
    trusting = ssl.create_default_context(cafile=str(origin.certificate.authority))

    def get(path: str) -> str:
        connection = HTTPConnection(HOST, port)
        connection.sock = trusting.wrap_socket(create_connection(("127.0.0.1", port), 5), server_hostname=HOST)
        try:
            connection.request("GET", f"/live/{path}")
            answer = connection.getresponse()
            text = answer.read().decode()
            assert answer.status == 200, text
            assert answer.getheader("Content-Type") == "application/vnd.apple.mpegurl"
            assert answer.getheader("Cache-Control") == "no-store"
            return text
        finally:
            connection.close()

    yield run / "live", get
    origin.stop()


def segments(playlist: str) -> list[int]:
    return [int(number) for number in re.findall(r"^/media/2/(\d+)\.m4s$", playlist, re.MULTILINE)]


@pytest.mark.parametrize(
    ("passed_s", "listed"),
    [
        (0.5, range(1, 9)),  # the window is full from the start on
        (3.0, range(2, 10)),
        (21.0, range(11, 19)),
        (43.0, range(22, 30)),
        (47.0, range(24, 31)),  # after the last segment nothing new comes
        (57.0, range(29, 31)),
    ],
)
def test_window_slides_with_the_clock(server: tuple[Path, Get], clip: Clip, passed_s: float, listed: range) -> None:
    folder, get = server
    name = f"at-{passed_s:g}"
    hls.write_playlists(folder / name, clip, (2,), 8, now=time.time() - passed_s)
    playlist = get(f"{name}/2.m3u8")
    assert playlist.startswith("#EXTM3U\n")
    assert segments(playlist) == list(listed)
    assert f"#EXT-X-MEDIA-SEQUENCE:{listed[0]}\n" in playlist
    assert playlist.count("#EXTINF:2.0,") == len(listed)
    assert "ENDLIST" not in playlist


def test_master_names_the_asked_rungs_with_their_rates(clip: Clip, tmp_path: Path) -> None:
    master = (hls.write_playlists(tmp_path / "live", clip, (0, 3), 8) / "master.m3u8").read_text().splitlines()
    streams = [line for line in master if line.startswith("#EXT-X-STREAM-INF")]
    assert [line for line in master if not line.startswith("#")] == ["0.m3u8", "3.m3u8"]
    assert ["RESOLUTION=426x240" in streams[0], "RESOLUTION=1280x720" in streams[1]] == [True, True]
    assert "BANDWIDTH=3625000,AVERAGE-BANDWIDTH=2900000" in streams[1] and 'CODECS="avc1.640003"' in streams[1]
    assert sorted(path.name for path in (tmp_path / "live").iterdir()) == ["0.m3u8", "3.m3u8", "master.m3u8"]


def test_window_reaches_beyond_where_players_stay() -> None:
    assert hls.window_segments(6) * 2 > 6 + 4 and hls.window_segments(120) * 2 > 124
