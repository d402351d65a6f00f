# SPDX-License-Identifier: Apache-2.0
"""The host watch writes a line a second with figures that add up."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil
import pytest

from sojourn.captures.host import HostWatch


def test_it_watches(tmp_path: Path) -> None:
    watch = HostWatch.start(tmp_path)
    file, end = tmp_path / "host.jsonl", time.monotonic() + 10
    while file.read_text().count("\n") < 2 and time.monotonic() < end:
        time.sleep(0.05)
    watch.stop()
    assert not watch.process.alive()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) >= 2
    last = lines[1]
    assert 0 < last["t"] - lines[0]["t"] < 3
    cores = last["cpu_cores_used"] + last["cpu_idle_cores"] + last["cpu_steal_cores"]
    assert cores == pytest.approx(psutil.cpu_count(), abs=0.1)
    assert last["stall_ms"] >= 0
    assert abs(last["suspended_ms"]) < 1 and abs(last["clock_step_ms"]) < 5
