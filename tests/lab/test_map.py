# SPDX-License-Identifier: Apache-2.0
"""A map in simulated time: it is stopped in the middle, resumed, and extended by a value."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.harness.report.heat_map import HarmField, heat_maps
from sojourn.harness.report.index import INDEX
from sojourn.harness.store.runs import RunStore

pytestmark = pytest.mark.lab

TIMELINES = "timeline=solo:5,cubic:4;solo:5,prague:4"


def start(results: Path, *swept: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sojourn.harness.cli", "map", *swept, f"--results={results}", "--buffer=4"]
    return subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ},
        start_new_session=True,
    )  # fmt: skip


def test_a_map_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    results = tmp_path / "map"
    stopped = start(results, "rtt=10ms", TIMELINES)
    deadline = time.monotonic() + 600
    while not RunStore(results).runs():  # one of two has ended
        assert time.monotonic() < deadline and stopped.poll() is None
        time.sleep(0.1)
    stopped.send_signal(signal.SIGTERM)
    said, _ = stopped.communicate(timeout=120)
    first = RunStore(results).runs()
    assert stopped.returncode in (0, 128 + signal.SIGTERM), said
    resumed = start(results, "rtt=10ms,40ms", TIMELINES)
    said, _ = resumed.communicate(timeout=1200)
    assert resumed.returncode == 0, said
    runs = RunStore(results).runs()
    assert set(first) < set(runs) and len(runs) == 4
    assert f"map of 4 experiments: {4 - len(first)} runs to make; {len(first)} were finished before" in said
    (primary, *_) = heat_maps(HarmField(experiments(find_runs([results]))))
    (table,) = primary.tables
    assert list(table.heads) == ["cubic", "prague"]
    assert [head for head, _ in table.rows] == ["youtube, 10mbit, 10ms", "youtube, 10mbit, 40ms"]
    assert all(cell.notes == ("n = 1",) for _, cells in table.rows for cell in cells)
    assert str(results / INDEX) in said and not list(results.glob("*/screen.mp4"))
