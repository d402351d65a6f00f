# SPDX-License-Identifier: Apache-2.0
"""The origin of a broadcast with low latency: chunks of the real clip, when each is due, and players that follow it."""

from __future__ import annotations

import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from socket import create_connection, create_server
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest
from playwright.sync_api import sync_playwright

from sojourn.apps.base import Stage
from sojourn.apps.browsers.browser import CHROMIUM
from sojourn.apps.iptv import Iptv
from sojourn.apps.options import LOW_LATENCY_PLAYERS
from sojourn.apps.players.manifests import write_low_latency
from sojourn.apps.standins.broadcast.server import Broadcast, boxes, playlist, split
from sojourn.apps.standins.clip import FPS, SEGMENT_SECONDS, Clip, ensure_clip
from sojourn.apps.standins.ladder import DEFAULT
from sojourn.apps.standins.origin import HOST, ensure_certificate
from sojourn.captures.player import DRAIN, SCRIPT
from sojourn.hardware.machine.place import LOCAL
from sojourn.scoring.live_latency import latency_log

RUNGS = DEFAULT[:2]
TARGET = 3.0
Get = Callable[[str], HTTPResponse]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    """Four seconds of the real clip in two renditions, which last 200 s."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOJOURN_CACHE", str(tmp_path_factory.mktemp("cache")))
        return ensure_clip(seconds=4, ladder=RUNGS, film_seconds=200)


def begun(clip: Clip, folder: Path) -> Broadcast:
    return write_low_latency(folder / "live", clip, (0, 1), TARGET)


def frames(file: Path) -> list[float]:
    """Return the times of all pictures in a file, in order, s."""
    probe = ["ffprobe", "-v", "error", "-show_entries", "frame=pts_time", "-of", "csv=p=0", str(file)]
    lines = subprocess.run(probe, capture_output=True, text=True, check=True).stdout.split()
    return [float(line.strip(",")) for line in lines]


@pytest.mark.parametrize("numbers", [(1, 2), (2, 3), (99, 100)])
def test_chunks_together_are_the_segments_at_their_time(clip: Clip, tmp_path: Path, numbers: tuple[int, ...]) -> None:
    broadcast = begun(clip, tmp_path)
    chunks = [chunk for number in numbers for chunk in broadcast.segment(1, number)]
    assert len(chunks) == 2 * broadcast.chunks
    (tmp_path / "film.mp4").write_bytes((clip.folder / "1/init.mp4").read_bytes() + b"".join(chunks))
    times, first = frames(tmp_path / "film.mp4"), (numbers[0] - 1) * SEGMENT_SECONDS
    assert times == pytest.approx([first + n / FPS for n in range(2 * SEGMENT_SECONDS * FPS)], abs=1e-3)
    media = b"".join(content for chunk in chunks for kind, content in boxes(chunk) if kind == b"mdat")
    originals = [(clip.folder / f"1/{(number - 1) % 2 + 1}.m4s").read_bytes() for number in numbers]
    assert media == b"".join(content for it in originals for kind, content in boxes(it) if kind == b"mdat")


def test_parts_are_listed_for_three_target_durations_of_short_segments(tmp_path: Path) -> None:
    broadcast = Broadcast(1_800_000_000.0, str(tmp_path), 120, 1320, 22, 0.5, 5, 1.0)
    text = playlist(broadcast, 1, broadcast.start + 15.01)
    assert "#EXT-X-TARGETDURATION:1\n" in text and "PART-TARGET=0.1\n" in text and "#EXTINF:0.5,\n" in text
    assert text.count("#EXTINF") == 22 and text.count("#EXT-X-PART:DURATION=0.1,") == 5 * 5
    assert text.endswith('URI="/media/1/31.0.m4s"\n')


def test_a_segment_that_cannot_be_split_so_is_refused(clip: Clip) -> None:
    with pytest.raises(ValueError, match="60 samples"):
        split((clip.folder / "0/1.m4s").read_bytes(), 7)


@pytest.mark.parametrize(
    ("passed_s", "whole", "parts", "hint"),
    [(0.0, 8, 2, "9.0"), (0.39, 8, 2, "9.0"), (0.41, 8, 3, "9.1"), (1.9, 8, 6, "9.4"), (2.01, 8, 2, "10.0")],
)
def test_a_playlist_lists_what_is_due(
    clip: Clip, tmp_path: Path, passed_s: float, whole: int, parts: int, hint: str
) -> None:
    broadcast = begun(clip, tmp_path)
    live = broadcast.start + 8 * SEGMENT_SECONDS
    text = playlist(broadcast, 1, live + passed_s)
    newest = text.rpartition("#EXTINF")[2]
    assert text.count("#EXTINF") == min(whole, broadcast.window)
    assert text.count("#EXT-X-PART:") - 2 * broadcast.chunks + 2 == parts
    assert text.endswith(f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="/media/1/{hint}.m4s"\n')
    assert newest.count("#EXT-X-PART:") == parts - 2
    assert f"PART-HOLD-BACK={TARGET:g}" in text and "ENDLIST" not in text
    assert "#EXT-X-ENDLIST" in playlist(broadcast, 1, broadcast.due(broadcast.last, broadcast.chunks - 1) + 0.01)


def test_the_manifest_says_that_segments_come_in_chunks(clip: Clip, tmp_path: Path) -> None:
    broadcast = begun(clip, tmp_path)
    root = ElementTree.parse(tmp_path / "live/live.mpd").getroot()
    template = root.find(".//{*}SegmentTemplate")
    latency = root.find(".//{*}Latency")
    assert template is not None and template.get("availabilityTimeComplete") == "false"
    assert float(template.get("availabilityTimeOffset", "0")) == pytest.approx(SEGMENT_SECONDS - broadcast.chunk_s)
    assert latency is not None and latency.get("target") == "3000"
    assert sorted(file.name for file in (tmp_path / "live").iterdir()) == ["live.mpd", "master.m3u8"]


@pytest.fixture
def watched(clip: Clip, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Iptv, str]]:
    """A television service with a player, and the address of its page, served on a free port of this machine."""
    player = getattr(request, "param", "hls.js")
    service = Iptv(player=player, rungs=RUNGS, target_latency=TARGET)
    service.take({"clip": vars(clip)})
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    stage = Stage(LOCAL, LOCAL, "127.0.0.1", tmp_path, "", port=port)
    try:
        url, _ = service.serve(stage)
        yield service, url
    finally:
        service.stop()


@pytest.fixture
def get(watched: tuple[Iptv, str]) -> Get:
    """What the origin answers for a path, once its header is there."""
    port = int(watched[1].split(":")[2].split("/")[0])

    def ask(path: str) -> HTTPResponse:
        trusting = ssl.create_default_context(cafile=str(ensure_certificate().authority))
        connection = HTTPConnection(HOST, port)
        connection.sock = trusting.wrap_socket(create_connection(("127.0.0.1", port), 10), server_hostname=HOST)
        connection.request("GET", path)
        return connection.getresponse()

    return ask


def test_nothing_is_sent_before_it_is_due(watched: tuple[Iptv, str], get: Get) -> None:
    broadcast = watched[0]._played and watched[0]._played.broadcast
    assert broadcast
    number, _ = broadcast.newest(time.time())
    answer = get(f"/media/0/{number + 1}.m4s")
    assert time.time() >= broadcast.due(number + 1, 0)
    chunks, came = broadcast.segment(0, number + 1), list[float]()
    for index, chunk in enumerate(chunks):
        assert answer.read(len(chunk)) == chunk
        came.append(time.time())
        assert broadcast.due(number + 1, index) <= came[-1]
    assert answer.read() == b""
    # A busy host may be late with some; what is held back until the segment is whole is late with all.
    assert any(at < broadcast.due(number + 1, index + 1) for index, at in enumerate(came[:-1]))
    part = get(f"/media/0/{number + 2}.1.m4s")
    assert time.time() >= broadcast.due(number + 2, 1) and part.read() == broadcast.segment(0, number + 2)[1]
    reload = get(f"/live/0.m3u8?_HLS_msn={number + 2}&_HLS_part=3")
    assert time.time() >= broadcast.due(number + 2, 3) and f"/{number + 2}.3.m4s" in reload.read().decode()
    assert get(f"/media/0/{number + 40}.m4s").status == 404 and get("/nothing").status == 404


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with sync_playwright() as playwright:
        flags = ["--disable-gpu", f"--host-resolver-rules=MAP {HOST} 127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.mark.parametrize(
    "watched", ["hls.js", *(name for name in LOW_LATENCY_PLAYERS if name.startswith("dash-"))], indirect=True
)
def test_a_player_follows_the_broadcast_with_low_latency(watched: tuple[Iptv, str], chromium: Any) -> None:
    """It comes as near as it aims to; after a stall, of which a busy host has some, hls.js aims 1 s further behind.

    tests/lab/test_players.py has its latency and how it catches up in simulated time.
    """
    page = chromium.new_page(ignore_https_errors=True)
    try:
        page.add_init_script(path=SCRIPT)
        page.goto(watched[1])
        page.wait_for_function(f"player.shown() === {RUNGS[-1].height}", timeout=60_000)
        lines, end = list[dict[str, Any]](), time.monotonic() + 90
        while not follows(log := latency_log(lines)):
            assert page.evaluate("window.playerError || ''") == "" and time.monotonic() < end, log
            page.wait_for_timeout(500)
            lines += page.evaluate(DRAIN)
    finally:
        page.close()
    assert log is not None and log["rate"].max() <= 1.1  # type: ignore[operator]


def follows(log: pl.DataFrame | None) -> bool:
    """Whether the player is about as far behind the broadcast as it aims to be."""
    return log is not None and log.height >= 6 and TARGET - 0.5 < log["latency_s"][-1] < TARGET + 1.5
