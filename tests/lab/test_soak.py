# SPDX-License-Identifier: Apache-2.0
"""A short soak of real runs that is killed in mid-run and goes on: nothing is lost, nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.bundle.archive import verify
from sojourn.harness.soak import leaks, state
from sojourn.harness.soak.state import Attempt, BatchDirectory
from sojourn.harness.store.manifest import PARTIAL
from sojourn.scoring.schema.scores import SCORES
from tests.hidden import REAL_TIME, path_without
from tests.lab.real_time.test_virtual import host_state
from tests.processes import outliving

pytestmark = pytest.mark.lab

PLAN = """
rounds = {rounds}
retries = {retries}
quarantine = 1000
limit_min = 4
[disk]
keep_free_gb = 0.05
[options]
timeline = "{timeline}"
jitter-gate = "50ms"
[cells.one-queue]
qdisc = "fq_codel flows 1"
[cells.l4s]
qdisc = "dualpi2"
"""


def start(folder: Path, hours: float = 1, *, path: str = os.environ["PATH"]) -> subprocess.Popen[str]:
    """Begin the night of `folder`/plan.toml, or go on with it, where the programs are that `path` leads to."""
    command = [sys.executable, "-m", "sojourn.harness.cli", "soak", str(folder / "plan.toml"), f"--hours={hours}"]
    return subprocess.Popen(
        [*command, "--status=127.0.0.1:0"], cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"PATH": path},
    )  # fmt: skip


def until(process: subprocess.Popen[str], what: Callable[[], object], seconds: float) -> None:
    """Wait until something is so while the soak runs."""
    end = time.monotonic() + seconds
    while not what():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.1)


def mid_run(folder: BatchDirectory) -> bool:
    """Tell whether the run that is made has its first phase behind it."""
    with suppress(OSError):  # it is renamed meanwhile
        runs = [folder.run_of(attempt) for attempt in running(folder)]
        return any(run is not None and (run / "timeline.json").exists() for run in runs)
    return False


def running(folder: BatchDirectory) -> list[Attempt]:
    return [attempt for attempt in folder.attempts() if attempt.outcome == "running"]


def check_runs(folder: BatchDirectory) -> None:
    """Every finished run verifies; a void one gives no number; no run left anything behind."""
    for attempt in folder.attempts():
        assert attempt.leaks == []
        if attempt.outcome in ("valid", "void"):
            assert attempt.run and verify(folder.path / attempt.run).status == attempt.outcome
            assert bool(json.loads((folder.path / attempt.run / SCORES).read_text())["harm"]) == (
                attempt.outcome == "valid"
            )
    assert leaks.marked(str(folder.path)) == []


def test_a_killed_soak_goes_on(tmp_path: Path, scratch: Path) -> None:
    before, path = host_state(), path_without(tmp_path / "bin", *REAL_TIME)  # simulated time needs none of these
    plan = PLAN.replace("[options]", '[options]\nrecorder = "none"\nbuffer = "2"').partition("[cells.l4s]")[0]
    (tmp_path / "plan.toml").write_text(plan.format(rounds=1, retries=0, timeline="solo:5,cubic:4"))
    process = start(tmp_path, path=path)
    until(process, lambda: state.batches(tmp_path / "soak"), 300)
    (folder,) = state.batches(tmp_path / "soak")
    until(process, lambda: mid_run(folder), 900)
    running, recorded = leaks.marked(str(folder.path)), set(folder.path.glob(f"*{PARTIAL}/*"))
    process.kill()
    process.communicate()
    assert len(running) > 10 and not outliving(running)

    process = start(tmp_path, path=path)
    said, _ = process.communicate(timeout=1200)
    killed = [attempt for attempt in folder.attempts() if attempt.outcome == "killed"]
    others = [attempt for attempt in folder.attempts() if attempt not in killed]
    assert any(attempt.run for attempt in killed)
    assert len(recorded) > 10 and all(file.exists() for file in recorded)
    assert {it.cell for it in others} == {"one-queue"}, said
    assert {it.outcome for it in others} == {"valid"} and process.returncode == 0, said
    check_runs(folder)
    (suite,) = ElementTree.parse(folder.path / "junit.xml").getroot()
    assert len(suite) == 1 and (folder.path / "report.html").exists()
    assert host_state() == before and not list(scratch.glob("sojourn-*"))
