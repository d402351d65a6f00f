# SPDX-License-Identifier: Apache-2.0
"""A map in simulated time: screening runs, extended by a value, stopped in the middle of the new run, and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.harness.report.film import RunFilmError, write_film
from sojourn.harness.report.heat_map import HarmField, heat_maps
from sojourn.harness.report.index import INDEX
from sojourn.harness.store.manifest import PARTIAL
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.scoring.tables import TABLES
from tests.processes import of_name, outliving

pytestmark = pytest.mark.lab


def start(results: Path, swept: str) -> subprocess.Popen[str]:
    """Begin a map of runs in which many flows leave the video nothing for seconds."""
    options = "--timeline=solo:5,cubic:4,prague*16:6", "--buffer=2", f"--results={results}"
    command = [sys.executable, "-m", "sojourn.harness.cli", "map", swept, *options]
    return subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ},
        start_new_session=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a map of one experiment."""
    made = start(folder := tmp_path_factory.mktemp("results") / "map", "rtt=10ms")
    said, _ = made.communicate(timeout=1200)
    assert made.returncode == 0, said
    return folder


@pytest.fixture(scope="module")
def screening_run(results: Path) -> Path:
    (run,) = RunStore(results).runs()
    return run


def scores_of(run: Path) -> Scores:
    return Scores.model_validate_json((run / SCORES).read_bytes())


def test_the_picture_is_the_players_log(screening_run: Path) -> None:
    scores = scores_of(screening_run)
    assert scores.picture == "player" and not list(screening_run.glob("screen*"))
    assert json.loads((screening_run / "lab.json").read_text())["screening"] is True
    assert "every-frame-logged" in {gate.code for gate in scores.validity.gates}
    solo, _, contended = scores.phases
    assert (solo.fps, solo.stalls) == (pytest.approx(30, abs=0.5), 0)
    assert contended.stall_s and any(entry.kind == "stall" for entry in scores.freezes)
    shown = TABLES["frames"].of(screening_run)
    assert shown["frame"].is_sorted() and set(shown["height"]) <= {240, 360, 480, 720}
    assert "frame" not in set(TABLES["player"].of(screening_run)["event"])


def test_it_has_no_film(screening_run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFilmError, match=r"screen\.mp4: is missing"):
        write_film([(screening_run, scores_of(screening_run))], tmp_path / "film.mp4", lambda *_: None)


def test_a_map_that_was_stopped_goes_on_where_it_was(screening_run: Path, results: Path) -> None:
    stopped = start(results, "rtt=10ms,40ms")
    tree, deadline = psutil.Process(stopped.pid), time.monotonic() + 600
    while not list(results.glob(f"*{PARTIAL}")) or not of_name(tree.children(True), "linux"):
        assert time.monotonic() < deadline and stopped.poll() is None, stopped.communicate()[0]
        time.sleep(0.1)
    running = tree.children(recursive=True)
    stopped.send_signal(signal.SIGTERM)
    said, _ = stopped.communicate(timeout=120)
    assert stopped.returncode == 128 + signal.SIGTERM, said
    assert not outliving(running) and RunStore(results).runs() == [screening_run]
    resumed = start(results, "rtt=10ms,40ms")
    said, _ = resumed.communicate(timeout=1200)
    assert resumed.returncode == 0, said
    runs = RunStore(results).runs()
    assert screening_run in runs and len(runs) == 2
    assert "map of 2 experiments: 1 run to make; 1 finished before" in said
    (primary, *_) = heat_maps(HarmField(experiments(find_runs([results]))))
    (table,) = primary.tables
    assert list(table.heads) == ["cubic", "prague*16"]
    assert [head for head, _ in table.rows] == ["youtube, 10 Mbit/s, 10 ms", "youtube, 10 Mbit/s, 40 ms"]
    assert all(cell.notes == ("n = 1",) for _, cells in table.rows for cell in cells)
    assert str(results / INDEX) in said and not list(results.glob("*/screen.mp4"))
