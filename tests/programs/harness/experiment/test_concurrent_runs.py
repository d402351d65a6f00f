# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.bundle.archive import verify
from sojourn.harness.engine.local import LocalEngine
from sojourn.harness.experiment.concurrent_runs import _Board, one_by_one, side_by_side
from sojourn.harness.experiment.run import Result, new_run
from sojourn.harness.experiment.series import SeriesOfRuns
from sojourn.harness.lab.machine import SimulatedError
from sojourn.harness.store.manifest import PARTIAL, read_manifest
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import StoreError
from sojourn.scoring.schema.scores import Scores
from tests.programs.harness.experiment.seed_runs import asked, jobs
from tests.refusals import refusal


def test_one_by_one_a_void_run_is_not_made_again_with_its_seed(scores: Scores, tmp_path: Path) -> None:
    made: list[int] = []

    def once(options: Any) -> Result:
        made.append(options.seed)
        return Result(tmp_path / str(options.seed), scores, ("too late",) if options.seed == 1 else ())

    said = StringIO()
    results = list(one_by_one(SeriesOfRuns({"": asked(tmp_path, 1)}), once, Console(file=said)))
    assert made == [1, 2] and [bool(result.void) for result in results] == [True, False]
    assert "seed 1: invalid: too late; replaced by seed 2" in said.getvalue()


def test_while_the_last_runs_are_scored_no_time_is_named(tmp_path: Path) -> None:
    series, said = SeriesOfRuns({"": asked(tmp_path, 2)}), StringIO()
    board = _Board(series, Console(file=said))
    for done, shown in ((0.5, "0 of 2 runs done, about "), (1.0, "0 of 2 runs done, scoring the last ones")):
        board.done = {run: done * run.options.seconds for run in series.runs}
        board._last_shown -= 60
        board.show()
        assert said.getvalue().splitlines()[-1].startswith(shown)


def outcome(folder: Path, scores: Scores, wanted: int, workers: int = 2, **does: Any) -> tuple[list[int], str, str]:
    """Make runs side by side: the seeds of those that came, what the user read, and why not all did."""
    said, seeds, why = StringIO(), [], ""
    series, job = SeriesOfRuns({"": asked(folder / "results", wanted)}), jobs(folder, scores, **does)
    create = partial(new_run, "t", command_line=())
    try:
        for result in side_by_side(series, LocalEngine(1, workers), job, create, Console(file=said, width=200)):
            seeds.append(read_manifest(result.path).seed or 0)
    except SimulatedError as error:
        why = str(error)
    return seeds, said.getvalue(), why


def test_runs_come_in_order_of_their_seeds_whichever_ends_first(scores: Scores, tmp_path: Path) -> None:
    seeds, said, why = outcome(tmp_path, scores, 3, void=(2,), slow={1: "begun-4"})
    assert (seeds, why) == ([1, 2, 3, 4], "")
    assert said.index("seed 2: invalid: too late; replaced by seed 4") < said.index("seed 1: valid")
    assert "seed 1: run 1 of 3: " in said and "seed 4: a further run: " in said and "seed 3: a phase is over" in said


def test_a_run_is_committed_with_what_its_job_reports(scores: Scores, tmp_path: Path) -> None:
    outcome(tmp_path, scores, 2)
    runs = sorted((tmp_path / "results").iterdir())
    assert len(runs) == 2
    for run in runs:
        manifest = verify(run)
        assert (manifest.test, manifest.status, manifest.versions) == ("t", "valid", {"kernel build": "theirs"})
        assert (run / "deep" / "evidence").read_text() == "recorded"


def test_a_run_that_is_killed_while_it_reports_fails_alone(scores: Scores, tmp_path: Path) -> None:
    seeds, _, why = outcome(tmp_path, scores, 2, cut_off=(1,))
    assert seeds == [2] and why == "seed 1: its process ended with -9 (out of memory? killed?)"


def test_what_runs_next_to_a_failure_ends_well_and_nothing_new_begins(scores: Scores, tmp_path: Path) -> None:
    seeds, said, why = outcome(tmp_path, scores, 4, workers=3, failing=(1,), dying=(2,), slow={3: "undone-*"})
    assert seeds == [3] and not (tmp_path / "begun-4").exists()
    assert why == "seed 1: RuntimeError: no route; seed 2: its process ended with -9 (out of memory? killed?)"
    assert "seed 1: failed: RuntimeError: no route" in said and "; waiting for the other " in said
    kept = {read_manifest(run).seed: read_manifest(run).reasons for run in (tmp_path / "results").glob(f"*{PARTIAL}")}
    whys = {1: "RuntimeError: no route", 2: "its process ended with -9 (out of memory? killed?)"}
    assert kept == {seed: [Reason.of("failed", why)] for seed, why in whys.items()}


def test_with_one_worker_runs_wait_for_each_other(scores: Scores, tmp_path: Path) -> None:
    _, said, _ = outcome(tmp_path, scores, 2, workers=1)
    assert said.index("seed 1: valid") < said.index("seed 2: run 2 of 2")


def test_leaving_the_iteration_ends_what_runs(scores: Scores, tmp_path: Path) -> None:
    job = jobs(tmp_path, scores, slow={2: "undone-*"}, endless=(2,))
    create = partial(new_run, "t", command_line=())
    series = SeriesOfRuns({"": asked(tmp_path / "results", 2)})
    runs = side_by_side(series, LocalEngine(1, 2), job, create, Console(file=StringIO()))
    next(runs)
    runs.close()
    begun = {path.name.removeprefix("begun-") for path in tmp_path.glob("begun-*")}
    assert begun == {path.name.removeprefix("undone-") for path in tmp_path.glob("undone-*")}
    stopped = [Reason.of("stopped", "stopped by Ctrl-C")]
    assert all(read_manifest(run).reasons == stopped for run in tmp_path.glob(f"results/*{PARTIAL}"))


def test_a_full_disk_ends_every_run(scores: Scores, tmp_path: Path) -> None:
    job = jobs(tmp_path, scores, slow={1: "begun-3"}, endless=(2, 3))
    create = partial(new_run, "t", command_line=())
    series = SeriesOfRuns({"": asked(tmp_path / "results", 3)})
    runs = side_by_side(series, LocalEngine(1, 3), job, create, Console(file=StringIO()))
    next(runs)
    left = list((tmp_path / "results").glob(f"*{PARTIAL}"))
    for run in left:
        (run / "evidence").write_text("recorded")  # whatever its own process has recorded so far
    with refusal(StoreError, "disk-full"):
        runs.throw(OSError(errno.ENOSPC, "No space left on device"))
    ended = [read_manifest(run) for run in left]
    assert len(ended) == 2 and {manifest.status for manifest in ended} == {"interrupted"}
    assert {reason.code for manifest in ended for reason in manifest.reasons} == {"disk-full"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_end_leaves_a_run_behind(scores: Scores, tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "scores.json").write_text(scores.model_dump_json())
    command = [sys.executable, "-m", "tests.programs.harness.experiment.seed_runs", str(tmp_path)]
    runner = subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while sum(path.stat().st_size > 0 for path in tmp_path.glob("begun-*")) < 2:
            assert time.monotonic() < deadline and runner.poll() is None
            time.sleep(0.05)
        workers = [psutil.Process(int(path.read_text())) for path in tmp_path.glob("begun-*")]
        # Ctrl-C reaches all of a terminal's processes.
        os.killpg(runner.pid, number) if number == signal.SIGINT else runner.send_signal(number)
        assert psutil.wait_procs(workers, timeout=20)[1] == []
        runner.wait(20)
    finally:
        runner.kill()
        _, errors = runner.communicate()
    assert len(workers) == 2 and len(list(tmp_path.glob("undone-*"))) == 2
    left = [read_manifest(run) for run in (tmp_path / "results").glob(f"*{PARTIAL}")]
    assert len(left) == 2 and {manifest.status for manifest in left} == {"interrupted"}
    assert runner.returncode != 0 and errors.count("Traceback") == (number != signal.SIGKILL), errors


def test_a_sweep_goes_on_after_a_failure_and_shows_only_ends(scores: Scores, tmp_path: Path) -> None:
    cells = {name: asked(tmp_path / name, 2, seed=first) for name, first in (("rtt 10ms", 1), ("rtt 20ms", 5))}
    said, seeds = StringIO(), list[int | None]()
    create = partial(new_run, "t", command_line=())
    job = jobs(tmp_path, scores, failing=(1,), void=(5,))
    with pytest.raises(SimulatedError) as failed:
        for result in side_by_side(
            SeriesOfRuns(cells), LocalEngine(1, 2), job, create, Console(file=said, width=200), sweep=True
        ):
            seeds.append(read_manifest(result.path).seed)
    assert str(failed.value) == "rtt 10ms, seed 1: RuntimeError: no route"
    assert sorted(seeds, key=lambda seed: seed or 0) == [2, 5, 6, 7]
    assert "rtt 20ms, seed 5: invalid: too late; replaced by seed 7" in said.getvalue()
    assert "a phase is over" not in said.getvalue()
