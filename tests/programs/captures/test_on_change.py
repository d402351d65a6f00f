# SPDX-License-Identifier: Apache-2.0
"""A recording of a screen's changes has every change once, shows that an unchanged screen is watched, and ends well."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil
import pytest

from sojourn.captures import on_change
from sojourn.captures import screen as screen_module
from sojourn.captures.on_change import WatchedScreen, WatchError
from sojourn.captures.screen import UNCHANGED_FPS, ScreenRecorder, finish
from sojourn.hardware.machine.process import ProcessError
from sojourn.scoring.picture.recording import decode, frame_times

SIZE = 320, 240
#: Colour → luma of BT.601.
RED, GREEN, BLUE = (0xFF0000, 82), (0x00FF00, 145), (0x0000FF, 41)
_CHANGE_WINDOW, _BACK_PIXEL, _CLEAR_AREA = 2, 2, 61


@pytest.fixture
def server() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """An X server without an authority file, and its display."""
    width, height = SIZE
    command = ["Xvfb", "-displayfd", "1", "-screen", "0", f"{width}x{height}x24", "-nolisten", "tcp", "-noreset"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout
    yield process, ":" + process.stdout.readline().strip()
    process.terminate()
    process.wait()


@pytest.fixture(autouse=True)
def same_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a machine, the viewer can open Python and the program; here, both may be closed to other users."""
    monkeypatch.setattr(screen_module, "viewer", lambda place: place)


def paint(screen: WatchedScreen, colour: int, width: int = 0) -> None:
    """Paint the screen, or its left part of `width` px."""
    screen._send(_CHANGE_WINDOW, 0, struct.pack("<III", screen._root, _BACK_PIXEL, colour))
    screen._send(_CLEAR_AREA, 0, struct.pack("<I4H", screen._root, 0, 0, width, 0))


def wait_for(true: object, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lumas(video: Path) -> list[int]:
    """The luma of each recorded picture's middle, full range made BT.601's again."""
    return [round(int(picture[120, 160]) * 219 / 255 + 16) for picture in decode(video, "format=gray", *SIZE)]


def test_every_change_is_recorded_once_at_its_time(server: tuple[object, str], tmp_path: Path) -> None:
    screen = WatchedScreen(server[1], SIZE)
    recorder = ScreenRecorder.start(server[1], tmp_path, size=SIZE, on_change=True)
    painted = []
    try:
        for colour, luma in (RED, GREEN, BLUE, GREEN):
            time.sleep(1)  # for which it stays: longer than a busy host stops the recorder
            painted.append((time.time(), luma))
            paint(screen, colour)
        time.sleep(1.5)  # nothing changes
    finally:
        recorded = recorder.stop()
    times, shown = frame_times(tmp_path / "screen.mp4"), lumas(tmp_path / "screen.mp4")
    assert recorded.on_change and recorded.fps == UNCHANGED_FPS and recorded.missing == 0
    assert recorded.frames == len(times) == len(shown)
    changes = [(recorded.start + times[n], b) for n, (a, b) in enumerate(pairwise(shown), 1) if abs(a - b) > 3]
    assert [luma for _, luma in changes] == [pytest.approx(luma, abs=3) for _, luma in painted]
    # How soon, and how often an unchanged screen is shown: tests/lab/recorders has that in simulated time.
    assert all(-0.001 < at - done < 1 for (at, _), (done, _) in zip(changes, painted, strict=True))
    assert recorded.start + times[-1] > painted[-1][0] + 0.5, "an unchanged screen is shown too"
    assert recorded.frames < len(changes) + UNCHANGED_FPS * times[-1] + 3


def test_what_is_painted_as_before_or_elsewhere_is_no_change(server: tuple[object, str], tmp_path: Path) -> None:
    screen = WatchedScreen(server[1], SIZE)
    recorder = ScreenRecorder.start(server[1], tmp_path, size=(160, 240), on_change=True)
    try:
        for _ in range(50):
            paint(screen, 0)  # as it is
        screen._send(_CHANGE_WINDOW, 0, struct.pack("<III", screen._root, _BACK_PIXEL, RED[0]))
        for x in range(160, 320, 2):  # outside
            screen._send(_CLEAR_AREA, 0, struct.pack("<I4H", screen._root, x, 0, 1, 0))
    finally:
        recorded = recorder.stop()
    assert recorded.frames <= 3 + UNCHANGED_FPS * frame_times(tmp_path / "screen.mp4")[-1]


def test_a_killed_recorder_takes_ffmpeg_along_and_leaves_what_it_recorded(
    server: tuple[object, str], tmp_path: Path
) -> None:
    recorder = ScreenRecorder.start(server[1], tmp_path, size=SIZE, on_change=True)
    (ffmpeg,) = [child for child in psutil.Process(recorder.process.popen.pid).children() if child.name() == "ffmpeg"]
    wait_for(lambda: (tmp_path / "screen.part.mp4").stat().st_size > 2000)
    recorder.process.stop(signal.SIGKILL)
    wait_for(lambda: not ffmpeg.is_running())
    screen = finish(tmp_path)
    assert screen.frames >= 2 and screen.start == pytest.approx(recorder.started)


def test_a_full_disk_ends_the_recorder_with_ffmpegs_words(server: tuple[object, str], tmp_path: Path) -> None:
    (tmp_path / "screen.part.mp4").symlink_to("/dev/full")
    with suppress(ProcessError):
        recorder = ScreenRecorder.start(server[1], tmp_path, size=SIZE, on_change=True)
        wait_for(lambda: not recorder.process.alive())
        recorder.process.stop()
    assert "No space left on device" in (tmp_path / "screen.log").read_text()


def test_an_ffmpeg_that_dies_ends_the_recorder(server: tuple[object, str], tmp_path: Path) -> None:
    recorder = ScreenRecorder.start(server[1], tmp_path, size=SIZE, on_change=True)
    (ffmpeg,) = [child for child in psutil.Process(recorder.process.popen.pid).children() if child.name() == "ffmpeg"]
    os.kill(ffmpeg.pid, signal.SIGKILL)
    wait_for(lambda: not recorder.process.alive())
    assert (tmp_path / "screen.log").read_text().endswith("ffmpeg ended, exit code -9\n")
    assert recorder.process.stop() == 1


def test_a_screen_that_ends_ends_the_recorder(server: tuple[subprocess.Popen[str], str], tmp_path: Path) -> None:
    recorder = ScreenRecorder.start(server[1], tmp_path, size=SIZE, on_change=True)
    server[0].kill()
    wait_for(lambda: not recorder.process.alive())
    assert "the X server has ended" in (tmp_path / "screen.log").read_text()
    assert recorder.stop().frames >= 1


def test_a_screen_that_is_too_small_or_refuses_is_named(
    server: tuple[object, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WatchError, match="320x240 px, not 321x240"):
        WatchedScreen(server[1], (321, 240))
    with pytest.raises(WatchError, match=r"cannot open display :4711: "):
        WatchedScreen(":4711", SIZE)
    with pytest.raises(ProcessError, match=r"cannot open display :4711: "):
        ScreenRecorder.start(":4711", tmp_path, size=SIZE, on_change=True)


def test_a_screen_asks_for_the_cookie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = struct.pack(">HHH", 0xFFFF, 0, 0) + b"\x00\x12MIT-MAGIC-COOKIE-1" + b"\x00\x10" + bytes(range(16))
    (authority := tmp_path / "authority").write_bytes(entry)
    command = ["Xvfb", "-displayfd", "1", "-screen", "0", "64x48x24", "-auth", str(authority), "-noreset"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        name = ":" + process.stdout.readline().strip()
        try:
            monkeypatch.delenv("XAUTHORITY", raising=False)
            with pytest.raises(WatchError, match="refused the recorder"):
                WatchedScreen(name, (64, 48))
            monkeypatch.setenv("XAUTHORITY", str(authority))
            screen = WatchedScreen(name, (64, 48))
            screen.grab()
            assert screen.pixels.shape == (48, 64, 4) and not screen.pixels[..., :3].any()
        finally:
            process.terminate()


def test_a_change_that_the_server_does_not_report_is_an_error() -> None:
    ending, _stop = os.pipe()
    events, _more = os.pipe()

    class Forgetful:
        size = (2, 2)
        pixels = np.zeros((2, 2, 4), np.uint8)

        def fileno(self) -> int:
            return events

        def grab(self) -> bool:
            self.pixels += 1
            return False

    with open(os.devnull, "wb") as nowhere, pytest.raises(WatchError, match="reported nothing"):
        on_change.record(Forgetful(), nowhere, 50, ending)  # type: ignore[arg-type]
