# SPDX-License-Identifier: Apache-2.0
"""A real call through a virtual lab: both ends show each other, what the path adds is what is measured, marks are
there, and an end that dies is told."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil
import pytest

from apps.base import Stage
from apps.call import Call
from apps.two_ends import FAR
from bottleneck.path import Path as DelayPath
from bottleneck.qdiscs import parse_qdisc
from bottleneck.spec import Bottleneck, Direction
from captures.packets import PacketCapture
from captures.screen import ScreenRecorder
from harness.display import SIZE, Display
from harness.lab import Lab
from scoring import frames, glass, latency, packets, pcapng

pytestmark = pytest.mark.lab
Window = tuple[float, float]


def path(down_ms: int) -> Bottleneck:
    """20 Mbit/s each way through pfifo; `down_ms` towards the client, 10 ms from it."""
    queue = parse_qdisc("pfifo")
    ways = [Direction(rate_bps=20_000_000, qdisc=queue, path=DelayPath(delay_us=ms * 1000)) for ms in (down_ms, 10)]
    return Bottleneck(down=ways[0], up=ways[1])


def medians(screen: Path, camera: Path, facts: dict[str, int], windows: list[Window]) -> list[float]:
    """The median capture-to-display latency (ms) in each window."""
    begun = json.loads((screen / "screen.json").read_text())["start"]
    log = glass.camera_log(map(json.loads, (camera / "player.jsonl").open()), facts["frames"])
    recording = frames.read_recording(screen / "screen.mp4", begun)
    delays = glass.frame_delays(glass.shown_frames(recording, log, facts["frames"] / facts["fps"]))
    found = [latency.percentile(latency.within(delays, [window]), 50, "delay_ms") for window in windows]
    return [ms for ms in found if ms is not None]


def settle_and_watch(call: Call, settle: float, seconds: float) -> Window:
    """Let the jitter buffer follow the path, then watch; the end of a part of the call fails the test."""
    begun = time.time() + settle
    while time.time() < begun + seconds:
        assert call.failure is None
        time.sleep(0.5)
    return begun, begun + seconds


def test_a_call_through_the_lab(virtual_lab: Lab, tmp_path: Path) -> None:
    lab = virtual_lab
    call = Call(bitrate_bps=1_000_000, ecn="ect1")
    call.prepare()
    lab.router.apply(path(10))
    display = Display.start(lab.client, tmp_path / "xvfb.log")
    stage = Stage(lab.client, lab.server, lab.addresses.server, tmp_path, display.name, width=SIZE[0], height=SIZE[1])
    try:
        call.start(stage)
        screen = ScreenRecorder.start(display.name, tmp_path, place=lab.client, size=SIZE)
        tap = PacketCapture.start(lab.server_tap.place, lab.server_tap.interface, tmp_path / "server.pcapng")
        try:
            windows = [settle_and_watch(call, 5, 12)]
            lab.router.apply(path(110))
            windows.append(settle_and_watch(call, 8, 12))
        finally:
            screen.stop()
            capture = tap.stop()
        facts = call.facts
        for process in psutil.process_iter(["cmdline"]):
            if _is_renderer(process, call._ends[0].browser._home):
                process.kill()
        deadline = time.monotonic() + 15
        while call.failure is None and time.monotonic() < deadline:
            time.sleep(0.2)
        assert call.failure and "the other end" in call.failure
    finally:
        call.stop()
        display.stop()
    before, after = medians(tmp_path, tmp_path / FAR, facts["clip"], windows)
    assert after - before == pytest.approx(100, abs=10)
    up_before, up_after = medians(tmp_path / FAR, tmp_path, facts["clip"], windows)
    assert up_after - up_before == pytest.approx(0, abs=10)
    table = pcapng.read(capture.file).packets
    for src, port in ((lab.addresses.server, "server_port"), (lab.addresses.client, "client_port")):
        sent = packets.select(table, src=src, sport=facts["call"][port])
        assert sent.height > 1000
        assert set(sent.filter(sent["t_ns"] > windows[0][0] * 1e9)["ecn"]) == {1}


def _is_renderer(process: psutil.Process, home: Path) -> bool:
    line = process.info["cmdline"] or []
    return "--type=renderer" in line and any(str(home) in word for word in line)
