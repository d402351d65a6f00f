# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.harness.report.film import TITLE, FilmedRun
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.sound import code
from sojourn.scoring.sound.ear import SOUND
from sojourn.scoring.sound.heard import MS, Samples
from sojourn.scoring.sound.heard import places as places_of
from tests.sound import ear_line, spoken, write_flac

Recorded = Callable[..., Path]


def film_of(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["film", *(str(argument) for argument in arguments)])
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
    code, out, err = film_of(run, "-o", film)
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


def test_there_is_one_title_at_any_time_and_the_quality_that_is_shown(recorded: Recorded, scores: Scores) -> None:
    side = FilmedRun.of_run(recorded(1), scores)
    pictures = side.overlays(960)
    for t in np.arange(-3, side.view.end + 2, 0.37):
        shown = [it for it in pictures if any(begin <= t < end for begin, end in it.times)]
        assert [it.left for it in shown].count(0) == 1 and shown[0].left == 0
        heights = {height for begin, end, height in side.view.quality if begin <= t < end}
        assert heights == {height for height in side.view.heights if any(f">{height}p<" in it.drawing for it in shown)}
    assert side.view.quality


@pytest.mark.lab
def test_two_runs_are_next_to_each_other_at_the_same_time_of_the_run(recorded: Recorded, tmp_path: Path) -> None:
    one, film = recorded(4), tmp_path / "film.mp4"
    (other := tmp_path / "others").mkdir()
    two = Path(shutil.copytree(one, other / one.name))
    code, _, err = film_of(one, two, "-o", film, "--from=-1", "--to=1.5")
    assert code == 0, err
    (frame,) = frames(film, 2.2)
    assert frame.shape == (1080, 1920, 3)
    assert np.abs(frame[:, :960] - frame[:, 960:]).mean() < 1
    # The recording begins 2 s before the first phase: 1 s after the film's first frame.
    (shown,), (was,) = frames(film, 1), frames(one / "screen.mp4", 2)
    shrunk = cv2.resize(shown[TITLE : TITLE + 540, :960].astype(np.uint8), (320, 180), interpolation=cv2.INTER_AREA)
    assert np.abs(shrunk.astype(int) - was).mean() < 12
    video = cv2.VideoCapture(str(film))
    assert video.get(cv2.CAP_PROP_FRAME_COUNT) == pytest.approx(75, abs=1) and video.get(cv2.CAP_PROP_FPS) == 30
    code, out, err = film_of(one, two, "--gif", "--from=0", "--to=1.5")
    assert code == 0, err
    assert Path(out.strip()).read_bytes()[:4] == b"GIF8"
    video = cv2.VideoCapture(out.strip())
    *_, last = (video.read()[1].astype(int) for _ in range(3))
    assert not video.read()[0] and last.shape == (406, 720, 3)
    # Its picture is that at the cursor, 1 s, and not the last one that is nearer to this frame than to the next.
    shown = cv2.resize(last[56:259, :360].astype(np.uint8), (320, 180), interpolation=cv2.INTER_AREA).astype(int)
    now, later = (np.abs(shown - frame).mean() for frame in frames(one / "screen.mp4", 3, 3.23))
    assert now < 20 and now < later - 1, (now, later)


@pytest.mark.lab
def test_the_film_of_a_call_has_the_sound_that_its_client_heard_when_it_was_heard(
    recorded: Recorded, scores: Scores, tmp_path: Path
) -> None:
    run, film = recorded(6), tmp_path / "film.mp4"
    # It begins 1.5 s before the first phase, and after 2 s the tap has nothing for 0.25 s.
    write_flac(spoken(5), run / SOUND)
    begins, late = scores.t0 - 1.5, scores.t0 - 1.5 + 2.25
    lines = [ear_line(begins), ear_line(late, 2 * code.RATE, clock_us=9e6 + 2.25e6)]
    (run / "player.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    status, _, err = film_of(run, "-o", film, "--from=-1", "--to=3")
    assert status == 0, err
    (heard,) = _sound(film)
    assert len(heard) == pytest.approx(4 * code.RATE, abs=2 * 1024)
    at = places_of(heard)
    t = np.arange(len(at)) / 1e3 - 1  # s of the run
    for begin, end, ahead in ((-0.99, 0.49, 1.5), (0.76, 2.95, 1.25)):
        inside = (t > begin) & (t < end)
        assert np.abs(at[inside] - 1e3 * (t[inside] + ahead)).max() < 0.1
    assert np.isnan(at[(t > 0.52) & (t < 0.73)]).all()

    (other := tmp_path / "others").mkdir()
    both = tmp_path / "both.mp4"
    status, _, err = film_of(run, silent_copy(run, other), "-o", both, "--from=-1", "--to=0")
    assert status == 0 and _sound(both).shape[0] == 1, err
    two = Path(shutil.copytree(run, other / "two"))
    (two / SOUND).unlink()
    write_flac(spoken(5, start_s=30), two / SOUND)
    both.unlink()
    status, _, err = film_of(run, two, "-o", both, "--from=-1", "--to=0")
    assert status == 0, err
    left, right = (np.nanmedian(places_of(channel) - np.arange(len(channel) // MS)) for channel in _sound(both))
    assert (left, right) == (pytest.approx(500, abs=1), pytest.approx(30_500, abs=1))


def silent_copy(run: Path, folder: Path) -> Path:
    """A copy of a run without its sound."""
    copy = Path(shutil.copytree(run, folder / "silent"))
    (copy / SOUND).unlink()
    return copy


def _sound(film: Path) -> Samples:
    """The samples of a film's sound, by channel."""
    probe = ["ffprobe", "-v", "error", "-select_streams", "a", "-show_entries", "stream=channels", "-of", "csv=p=0"]
    channels = int(subprocess.run([*probe, str(film)], capture_output=True, check=True).stdout)
    raw = ["ffmpeg", "-v", "error", "-i", str(film), "-vn", "-f", "s16le", "-ar", str(code.RATE), "-"]
    sound = np.frombuffer(subprocess.run(raw, capture_output=True, check=True).stdout, "<i2")
    return sound.reshape(-1, channels).T.astype(np.float32) / 32768


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
    code, out, err = film_of(run, "--from=0.4", "--to=0.8")
    film = Path(out.strip())
    assert (code, film) == (0, run.parent / f"{run.name}-film.mp4"), err
    (frame,) = frames(film, 0.1)
    assert frame.shape[:2] == (TITLE + 720 + 480, 1280)
    red = np.abs(frame[:TITLE] - [30, 38, 179]).max(axis=2) < 25
    white = (frame[86:108, :500] > 200).all(axis=2)  # the reason
    assert red.mean() > 0.7 and white.mean() > 0.02
    code, _, err = film_of(run)
    assert code == 1 and err.endswith(f"sojourn: {film}: exists; give another -o\n")


@pytest.mark.parametrize("words", [["-o", "x.gif"], ["--gif", "-o", "x.mp4"]])
def test_the_suffix_of_a_film_agrees_with_its_format(tmp_path: Path, words: list[str]) -> None:
    code, _, err = film_of(tmp_path, *words)
    assert code == 1 and err.startswith(f"sojourn: --output: {words[-1]}: ") and "--gif" in err


def test_what_cannot_be_made_into_a_film_is_one_clear_line(recorded: Recorded, tmp_path: Path) -> None:
    run = recorded(1)
    for arguments, wrong in (
        ([run, "-o", run / "film.mp4"], "inside the run"),
        ([run, "-o", tmp_path / "absent" / "film.mp4"], "absent"),
        ([tmp_path], "manifest.json"),
        ([run, run, run], "3 runs; give one or two"),
        ([run, "--from=5"], "--from 5 --to"),
        ([run, "--from=0.2", "--to=0.1"], "the recording has"),
    ):
        code, _, err = film_of(*arguments)
        assert code == 1 and wrong in err.splitlines()[-1] and "Traceback" not in err
    (run / "screen.mp4").write_bytes(b"no film")
    assert "screen.mp4" in film_of(run)[2]
    (run / "screen.mp4").unlink()
    code, _, err = film_of(run)
    assert code == 1 and "screen.mp4 is missing, but the manifest lists it" in err
    assert not list(run.parent.glob("*film*"))
