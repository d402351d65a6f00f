# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.machine.place import LOCAL, Place
from sojourn.harness.lab.contract import Tap
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells.real_time import _probed, _Run
from sojourn.traffic.spec import Probe


def test_one_way_delays_are_corrected_for_the_clock_of_a_server_by_ssh(tmp_path: Path) -> None:
    (date := tmp_path / "date").write_text(f'#!/bin/sh\nexec {shutil.which("date")} -d "+300 seconds" "$@"\n')
    date.chmod(0o755)
    there = Place("server", ("env", f"PATH={tmp_path}:{os.environ['PATH']}", "sh", "-c"), remote=True)
    lab = SimpleNamespace(server=there, tap=lambda _: Tap(LOCAL, "lo"))
    probes = Probe(rtt_us=20_000), Probe(rtt_us=20_000, round_trip=True)
    asked = Cell(name="c", hops=(dumbbell.bottleneck(50, "dualpi2"),), seconds=60, probes=probes)
    path: Any = SimpleNamespace(router=None)
    run = _Run(lab, path, asked, tmp_path, Event())  # type: ignore[arg-type]
    assert [it.seconds for it in run.probe_clocks] == pytest.approx([300], abs=1)
    run.began, ahead_ns = 1e9, round(run.probe_clocks[0].seconds * 1e9)
    sent = round(1e18) + 10_000_000
    trip = {
        "lost": "false", "delay": {"rtt": 20_000_000, "receive": 10_000_000 - ahead_ns},
        "timestamps": {"client": {"send": {"wall": sent}}, "server": {"send": {"wall": sent + 10_000_000 + ahead_ns}}},
    }  # fmt: skip
    for n in range(2):
        (tmp_path / f"probe-{n}.json.gz").write_bytes(gzip.compress(json.dumps({"round_trips": [trip]}).encode()))
    assert _probed(run).sort("probe")["delay_us"].to_list() == pytest.approx([10_000, 20_000], abs=1)
