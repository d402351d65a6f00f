# SPDX-License-Identifier: Apache-2.0
"""The window of the live playlists, as the real server gives it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sojourn.apps.standins import hls
from sojourn.apps.standins.clip import Clip
from sojourn.apps.standins.ladder import DEFAULT
from sojourn.apps.standins.origin import Site
from tests.programs.apps.fetch import fetch, serving

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
    run, cache = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("cache")
    (run / "live").mkdir()

    def get(path: str) -> str:
        body, header = fetch(origin, f"/live/{path}")
        assert header["Content-Type"] == "application/vnd.apple.mpegurl"
        assert header["Cache-Control"] == "no-store"
        return body.decode()

    with serving(Site(run, clip.folder, run / "live"), run, cache) as origin:
        yield run / "live", get


def segments(playlist: str) -> list[int]:
    return [int(number) for number in re.findall(r"^/media/2/(\d+)\.m4s$", playlist, re.MULTILINE)]


@pytest.mark.parametrize(
    ("passed_s", "listed"),
    [
        # It slides each 2 s: a busy host has nearly all of that to answer.
        (0.1, range(1, 9)),  # the window is full from the start on
        (2.1, range(2, 10)),
        (20.1, range(11, 19)),
        (42.1, range(22, 30)),
        (46.1, range(24, 31)),  # after the last segment nothing new comes
        (56.1, range(29, 31)),
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
    assert hls.window_segments(6, 2) * 2 > 6 + 4 and hls.window_segments(120, 2) * 2 > 124
