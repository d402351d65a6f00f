# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.scoring.schema.scores import Scores

Recorded = Callable[..., Path]
TITLE = 88  # px above the recording


def export(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["export", *(str(argument) for argument in arguments)])
    return done.exit_code, done.stdout, done.stderr


def frames(film: Path, *seconds: float) -> list[np.ndarray[Any, Any]]:
    video, found = cv2.VideoCapture(str(film)), []
    for second in seconds:
        video.set(cv2.CAP_PROP_POS_MSEC, second * 1000)
        read, frame = video.read()
        assert read
        found.append(frame.astype(int))
    return found


@pytest.mark.lab
def test_the_film_is_as_long_as_the_recording_and_its_cursor_moves(recorded: Recorded, tmp_path: Path) -> None:
    run, film = recorded(6), tmp_path / "film.mp4"
    code, out, err = export("--composite", run, "-o", film)
    assert (code, out.strip()) == (0, str(film)), err
    asked = ["ffprobe", "-v", "error", "-show_entries", "stream=codec_name,pix_fmt,width,height,duration,r_frame_rate"]
    probe = subprocess.run([*asked, "-of", "json", str(film)], capture_output=True, text=True, check=True)
    (stream,) = json.loads(probe.stdout)["streams"]
    assert (stream["codec_name"], stream["pix_fmt"], stream["r_frame_rate"]) == ("h264", "yuv420p", "30/1")
    assert (stream["width"], stream["height"]) == (1280, TITLE + 720 + 480)
    assert float(stream["duration"]) == pytest.approx(6, abs=1 / 30)
    head = film.read_bytes()
    assert head.index(b"moov") < head.index(b"mdat")

    # The recording begins 2 s before the first phase: until then there is no cursor. It is dark on what was light.
    before, *later = (frame[TITLE + 720 :] for frame in frames(film, 1, 3, 4, 5.5))
    at = []
    for frame in later:
        darker = (before - frame).sum(axis=2) > 300
        columns = np.flatnonzero(darker.sum(axis=0) > 250)  # of some 400 px of plots
        assert 2 <= columns.size <= 6 and np.ptp(columns) < 8
        at.append(columns.mean())
    steps = np.diff(at)
    assert steps[0] > 25 and steps[1] == pytest.approx(1.5 * steps[0], abs=2)
    assert at[0] - steps[0] == pytest.approx(_axis(before), abs=5)
    # The recording is above, as it was.
    (shown,), (was,) = frames(film, 4), frames(run / "screen.mp4", 4)
    shrunk = cv2.resize(shown[TITLE : TITLE + 720].astype(np.uint8), (320, 180), interpolation=cv2.INTER_AREA)
    assert np.abs(shrunk.astype(int) - was).mean() < 12


def _axis(plots: np.ndarray[Any, Any]) -> int:
    """The column at which the goodput plot's line of 0 begins."""
    grey = (plots < 245).all(axis=2)
    row = grey[int(grey.sum(axis=1).argmax())]
    runs = np.flatnonzero(np.diff(np.concatenate([[False], row, [False]]).astype(int))).reshape(-1, 2)
    return int(max(runs, key=lambda run: run[1] - run[0])[0])


@pytest.mark.lab
def test_a_void_run_is_shown_as_void(recorded: Recorded, scores: Scores) -> None:
    gates = [{"name": "g", "ok": False, "measured": "9 ms", "limit": "2 ms", "reason": "jitter: 9 ms, at most 2 ms"}]
    void = scores.model_dump() | {"harm": [], "validity": {"valid": False, "gates": gates}}
    run = recorded(3, told=Scores.model_validate(void))
    code, out, err = export("--composite", run)
    film = Path(out.strip())
    assert (code, film) == (0, run.parent / f"{run.name}-composite.mp4"), err
    (frame,) = frames(film, 2.5)
    assert frame.shape[:2] == (108 + 720 + 480, 1280)
    red = np.abs(frame[:100] - [30, 38, 179]).max(axis=2) < 25
    white = (frame[66:104, :500] > 200).all(axis=2)  # where the reason stands
    assert red.mean() > 0.7 and white.mean() > 0.02
    code, _, err = export("--composite", run)
    assert code == 1 and err.endswith(f"sojourn: {film}: exists; give another -o\n")


def test_what_cannot_be_made_into_a_film_is_one_clear_line(recorded: Recorded, tmp_path: Path) -> None:
    run = recorded(1)
    for arguments, wrong in (
        ([run], "--composite"),
        (["--composite", run, "-o", run / "film.mp4"], "inside the run"),
        (["--composite", run, "-o", tmp_path / "absent" / "film.mp4"], "absent"),
        (["--composite", tmp_path], "manifest.json"),
    ):
        code, _, err = export(*arguments)
        assert code == 1 and wrong in err.splitlines()[-1] and "Traceback" not in err
    (run / "screen.mp4").write_bytes(b"no film")
    assert "screen.mp4" in export("--composite", run)[2]
    (run / "screen.mp4").unlink()
    code, _, err = export("--composite", run)
    assert code == 1 and "screen.mp4 is missing, but the manifest lists it" in err
    assert not list(run.parent.glob("*composite*"))
