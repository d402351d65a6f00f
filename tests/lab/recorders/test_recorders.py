# SPDX-License-Identifier: Apache-2.0
"""A real page on a real screen, recorded by each recorder: the same files, and frames dated when they stood there."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import psutil
import pytest

from sojourn.apps.browsers.browser import flags
from sojourn.apps.browsers.playwright_driver import PlaywrightBrowser
from sojourn.captures.obs import ObsRecorder
from sojourn.captures.recorders import RECORDERS
from sojourn.captures.screen import ScreenRecorder
from sojourn.hardware.machine.display import Display
from sojourn.hardware.machine.place import LOCAL
from sojourn.hardware.machine.process import ProcessError
from sojourn.hardware.machine.viewer import for_viewer
from sojourn.scoring.picture import strip
from sojourn.scoring.picture.frames import read_recording
from sojourn.scoring.picture.recording import frame_times
from tests.lab.inside import run_inside
from tests.lab.recorders import recorders_inside
from tests.lab.recorders.recorders_inside import PAGE, SIZE
from tests.processes import of_name

pytestmark = pytest.mark.lab

FRAME_S = 1 / 30


@pytest.fixture
def display(tmp_path: Path) -> Iterator[str]:
    """A screen on which a page shows the time at which it was painted."""
    screen = Display.start(LOCAL, tmp_path / "xvfb.log", SIZE)
    (page := tmp_path / "page.html").write_text(PAGE)
    chromium = PlaywrightBrowser(LOCAL, screen.name, flags(width=SIZE[0], height=SIZE[1]))
    try:
        chromium.open(for_viewer(page).as_uri())
        yield screen.name
    finally:
        chromium.close()
        screen.stop()


def delays(run: Path) -> pl.Series:
    """From painting to recording, in s, of each recorded frame that shows the page."""
    screen = json.loads((run / "screen.json").read_text())
    box = strip.Box.bottom(screen["width"], screen["height"])
    read = read_recording(run / "screen.mp4", screen["start"], box).filter(pl.col("frame") >= 0)
    late = (read["t"] * 1000 - read["frame"]) % (1 << 20)
    return late.map_elements(lambda ms: (ms - (1 << 20) if ms > 1 << 19 else ms) / 1000, pl.Float64)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all recorders recorded of the same screen in simulated time."""
    run_inside(
        Path(recorders_inside.__file__), folder := tmp_path_factory.mktemp("recorded"), extras=["obs", "selenium"]
    )  # as one_run has
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize("width", recorders_inside.CORES)
def test_obs_and_ffmpeg_date_what_they_saw_alike(recorded: Path, width: int) -> None:
    runs = {name: recorded / str(width) / name for name in RECORDERS}
    screens = {name: json.loads((run / "screen.json").read_text()) for name, run in runs.items()}
    late = {name: delays(run) for name, run in runs.items()}
    told = {name: (screens[name], series.len(), series.median(), series.max()) for name, series in late.items()}
    assert screens["obs"]["width"] == width
    assert screens["obs"]["recorder"] == "obs" and screens["obs"]["start_error"] < FRAME_S / 4, told
    for name, series in late.items():
        assert series.len() > 150 and series.min() > -FRAME_S, told
        assert screens[name]["missing"] == 0, told
    assert late["obs"].median() == pytest.approx(late["ffmpeg"].median(), abs=FRAME_S), told
    assert {"screen.mp4", "screen.json", "screen.log"} == {path.name for path in runs["obs"].iterdir()}
    studio = json.loads((recorded / str(width) / "told.json").read_text())
    assert not any(studio["secret"].encode() in path.read_bytes() for path in runs["obs"].iterdir())
    assert not studio["left"]


def test_a_recording_of_changes_has_what_sixty_grabs_a_second_have(tmp_path: Path) -> None:
    run_inside(Path(recorders_inside.__file__), tmp_path)
    screens = {name: json.loads((tmp_path / name / "screen.json").read_text()) for name in ("grabs", "changes")}
    assert [screen["missing"] for screen in screens.values()] == [0, 0]
    box = strip.Box.bottom(*SIZE)
    grabs, changes = (
        read_recording(tmp_path / name / "screen.mp4", screen["start"], box) for name, screen in screens.items()
    )
    assert (changes["frame"][1:] >= 0).all()  # the first may be older than the page
    first = {n: t for t, n in changes.unique("frame", keep="first").select("t", "frame").rows()}
    begin, end = changes["t"][0], changes["t"][-1]
    seen = {n: t for t, n in grabs.unique("frame", keep="first").select("t", "frame").rows() if begin <= t <= end}
    assert len(seen) > 100 and seen.keys() <= first.keys()
    # A grab of 60 a second has a change up to a sixtieth later.
    assert all(-0.0005 < t - first[n] < 1 / 60 + 0.0005 for n, t in list(seen.items())[1:])
    assert changes.height < 0.7 * grabs.height
    steps = changes["t"].diff().drop_nulls()
    assert steps.max() < 0.51 and steps.min() > 0
    # Painted and recorded within a refresh of the screen, always after the same time.
    late = delays(tmp_path / "changes").filter(changes["frame"].replace(-1, None).drop_nulls().diff().fill_null(0) != 0)
    # A page's clock has steps of 0.1 ms.
    assert late.min() > -0.0002 and late.max() < 1 / 60 + 0.001, late.describe()


def test_obs_that_dies_is_told_and_leaves_what_it_recorded(display: str, tmp_path: Path) -> None:
    recorder = ObsRecorder.start(display, tmp_path, size=SIZE)
    try:
        wait_for(lambda: (tmp_path / "screen.progress").read_text().count("lagged") >= 2)
        (studio,) = of_name(psutil.Process().children(recursive=True), "obs")
        os.kill(studio.pid, signal.SIGKILL)
        wait_for(lambda: not recorder.process.alive())
        assert recorder.process.log_tail().endswith("OBS has ended, exit code -9")
    finally:
        screen = recorder.stop()
    assert screen.frames > 10 and frame_times(tmp_path / "screen.mp4")[-1] > 0.5
    assert delays(tmp_path).median() < 5  # how late OBS is: by night, in simulated time


@pytest.mark.parametrize("recorder", RECORDERS.values(), ids=RECORDERS)
def test_a_screen_that_is_not_there_is_named(recorder: type[ScreenRecorder], tmp_path: Path) -> None:
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    with pytest.raises(ProcessError, match=":4711"):
        recorder.start(":4711", tmp_path)
    assert {p.pid for p in psutil.Process().children(recursive=True)} <= before


def wait_for(true: object, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)
