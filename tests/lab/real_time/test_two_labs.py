# SPDX-License-Identifier: Apache-2.0
"""Two whole runs in real time at once on one machine: each knows of the other and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.store.loaded import load_run
from tests.lab.real_time.test_virtual import host_state

pytestmark = [pytest.mark.lab, pytest.mark.nightly]


def test_two_runs_at_once_end_as_valid_or_void_and_leave_nothing(tmp_path: Path) -> None:
    before = host_state()
    jobs = [
        subprocess.Popen(
            [sys.executable, "-m", "pytest", "tests/test_video_harm.py", "-p", "no:cacheprovider",
             f"--service={service}", "--lab=virtual", f"--results={tmp_path / service}",
             "--timeline=solo:10,cubic:15"],
            cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for service in ("youtube", "o2tv")
    ]  # fmt: skip
    try:
        said = [job.communicate(timeout=400)[0] for job in jobs]
    finally:
        for job in jobs:
            job.kill()
    beside = []
    for job, text, service in zip(jobs, said, ("youtube", "o2tv"), strict=True):
        (path,) = (manifest.parent for manifest in (tmp_path / service).glob("*/manifest.json"))
        run = load_run(path)
        beside.append(run.manifest.versions.get("beside", ""))
        validity = run.scores.validity
        assert validity.valid == (job.returncode == 0), text
        assert validity.valid or (validity.reasons and not run.scores.harm), text
        # Each saw its own packets only, through its own bottleneck.
        (phase,) = (phase for phase in run.scores.phases if phase.contender)
        rate = json.loads((path / "lab.json").read_text())["rate_down_bps"] / 1e6
        assert phase.contender_mbps is not None and phase.victim_mbps is not None
        assert 0 < phase.contender_mbps + phase.victim_mbps < rate
    assert any(told.startswith("another real-time lab runs on this machine: process ") for told in beside)
    assert host_state() == before
