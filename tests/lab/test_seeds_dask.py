# SPDX-License-Identifier: Apache-2.0
"""The main job and a soak on a Dask cluster of two workers, one of which is killed: its run is made by the other."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.bundle.archive import verify
from sojourn.harness.soak import state
from sojourn.harness.store.manifest import REPORT, read_manifest
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import SCORES
from tests.lab.test_matrix_dask import at_work, cluster
from tests.lab.test_soak import PLAN, check_runs, start

pytestmark = [pytest.mark.lab, pytest.mark.nightly]


def test_a_run_whose_worker_is_lost_is_made_by_another(tmp_path: Path) -> None:
    results, scratch = tmp_path / "results", tmp_path / "scratch"
    with cluster(2, scratch, nanny=False) as (address, workers):
        engine = address.replace("tcp://", "dask://")
        job = subprocess.Popen(
            [sys.executable, "-m", "pytest", "tests/test_video_harm.py", "--repeat=1", f"--engine={engine}", "--seed=3",
             "--timeline=solo:5,cubic:6", f"--results={results}"],
            cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        killed = at_work(workers)
        killed[0].send_signal(signal.SIGKILL)
        said, _ = job.communicate(timeout=1200)
        left = [path for path in scratch.rglob(SCORES)]
    assert "its worker was lost; begun again by tcp://" in said, said
    runs = RunStore(results).runs()
    assert [read_manifest(run).seed for run in runs] == [3, 4, 5][: len(runs)], said
    assert not list(results.glob("*.partial")) and not left
    for run in runs:
        manifest = verify(run)
        assert {SCORES, REPORT, "options.json", "screen.mp4"} <= manifest.files.keys()
        assert {"kernel build", "guest", "film", "processor"} <= manifest.versions.keys()
        assert json.loads((run / "options.json").read_text())["engine"] == engine
        assert run.name in (run / REPORT).read_text()
    assert job.returncode == (all(read_manifest(run).status == "void" for run in runs)), said


def test_a_soak_has_its_runs_made_there_and_their_evidence_here(tmp_path: Path) -> None:
    with cluster(2, tmp_path / "scratch", nanny=False) as (address, workers):
        engine = f'[options]\nengine = "{address.replace("tcp://", "dask://")}"\n'
        plan = PLAN.format(rounds=1, retries=1, timeline="solo:5,cubic:6").replace("[options]\n", engine)
        (tmp_path / "plan.toml").write_text(plan)
        soak = start(tmp_path)
        at_work(workers)[0].kill()
        said, _ = soak.communicate(timeout=1200)
    assert soak.returncode == 0 and "run 1: round 1" in said and "run 2: round 1" in said, said
    (folder,) = state.batches(tmp_path / "soak")
    first, second = folder.attempts()[:2]
    assert first.ended and second.begun < first.ended, "they were not side by side"
    check_runs(folder)
