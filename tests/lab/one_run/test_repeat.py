# SPDX-License-Identifier: Apache-2.0
"""Two short repetitions of the main job: orders that differ, and one summary of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.report.repetitions import SUMMARY, TABLE
from harness.report.run_page import REPORT
from harness.store.manifest import read_manifest
from harness.store.runs import RunStore
from tests.lab.main_job import run_main_job

pytestmark = [pytest.mark.lab, pytest.mark.experiment]


def test_repetitions_differ_in_order_and_are_summarised_together(tmp_path: Path) -> None:
    timeline = "solo:8,cubic:10,solo:2,prague:10"
    done = run_main_job(tmp_path, "--repeat=2", f"--timeline={timeline}", "--seed=3")
    assert done.returncode == 0, done.stdout + done.stderr
    runs = RunStore(tmp_path).runs()
    valid = [run for run in runs if read_manifest(run).status == "valid"]
    assert len(valid) == len(runs) == 2
    orders = {
        read_manifest(run).seed: [p["contender"] for p in json.loads((run / "timeline.json").read_text())["phases"]]
        for run in runs
    }
    assert set(orders) == {3, 4} and all(set(order) == {None, "cubic", "prague"} for order in orders.values())
    assert orders[3] != orders[4]
    (page,) = tmp_path.glob(f"*-summary/{REPORT}")
    assert str(page) in done.stdout and f"{len(valid)} of {len(runs)} runs are valid" in done.stdout
    assert all(f"../{run.name}/{REPORT}" in page.read_text() for run in runs)
    (summary,) = json.loads((page.parent / SUMMARY).read_text())
    assert summary["valid"] == [run.name for run in valid] and (page.parent / TABLE).exists()
