# SPDX-License-Identifier: Apache-2.0
"""A screen recording counts its gaps, and survives the recorder's death."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.captures.screen import NEEDED_FPS, ScreenRecorder, count_missing, encoding, finish
from sojourn.hardware.machine.process import ProcessError


@pytest.fixture
def display() -> Iterator[str]:
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", "1", "-screen", "0", "320x240x24", "-nolisten", "tcp"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout
    yield ":" + server.stdout.readline().strip()
    server.terminate()
    server.wait()


def test_gaps_are_missing_frames_even_when_late_ones_follow_fast() -> None:
    steady = [i / 30 for i in range(31)]
    assert count_missing(steady, 30) == (31, 0)
    assert count_missing([t for i, t in enumerate(steady) if i not in (7, 8, 20)], 30) == (31, 3)
    burst = [t if not 5 <= i < 9 else 9 / 30 - (9 - i) * 0.001 for i, t in enumerate(steady)]
    assert count_missing(burst, 30) == (31, 4)
    assert count_missing([], 30) == (0, 0)


def test_a_killed_recording_is_readable_up_to_its_last_second(display: str, tmp_path: Path) -> None:
    recorder = ScreenRecorder.start(display, tmp_path, size=(320, 240))
    assert abs(recorder.started - time.time()) < 5
    part = tmp_path / "screen.part.mp4"
    end = time.monotonic() + 15
    while part.stat().st_size < 4000 and time.monotonic() < end:
        time.sleep(0.1)
    recorder.process.stop(signal.SIGKILL)
    screen = finish(tmp_path)
    assert screen.frames >= 30
    assert screen.start == pytest.approx(recorder.started)
    assert json.loads((tmp_path / "screen.json").read_text())["frames"] == screen.frames
    assert (tmp_path / "screen.mp4").exists() and not part.exists()


def test_a_display_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match=":4711"):
        ScreenRecorder.start(":4711", tmp_path)


def test_a_recording_faster_than_needed_misses_only_what_the_needed_rate_would() -> None:
    """Of 60 frames a second every other one may be late or lost; two in a row may not."""
    grabs = [i / 60 for i in range(121)]
    assert count_missing([t for i, t in enumerate(grabs) if i not in (7, 20, 41)], NEEDED_FPS) == (61, 0)
    assert count_missing([t for i, t in enumerate(grabs) if i not in (7, 8, 9, 20)], NEEDED_FPS) == (61, 1)


def test_a_key_frame_comes_each_five_seconds_however_few_frames_there_are(tmp_path: Path) -> None:
    source = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=6:duration=16"]
    subprocess.run([*source, *encoding(60, 24), str(tmp_path / "slow.mp4")], check=True)
    probe = ["ffprobe", "-v", "error", "-skip_frame", "nokey", "-show_entries", "frame=pts_time", "-of", "csv=p=0"]
    told = subprocess.run([*probe, str(tmp_path / "slow.mp4")], capture_output=True, text=True, check=True).stdout
    assert [round(float(line.strip(","))) for line in told.split()] == [0, 5, 10, 15]
