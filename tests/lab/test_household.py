# SPDX-License-Identifier: Apache-2.0
"""A household's evening: several downloads and an upload at once, a rate that steps, a path that loses and bursts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bottleneck.units import parse_rate
from harness.store.loaded import load_run
from harness.store.runs import RunStore
from tests.lab.main_job import run_main_job

pytestmark = [pytest.mark.lab, pytest.mark.experiment]

SCENARIO = """
timeline = "solo:16,cubic*2+prague@up:30,solo:4"
rate = "20mbit,31s:8mbit"
rate-up = "4mbit"
loss = "0.2%"
jitter = "1ms"
bursts = "1ms-4ms"
"""


def test_each_flow_is_proven_and_the_path_is_as_asked(tmp_path: Path) -> None:
    (scenario := tmp_path / "evening.toml").write_text(SCENARIO)
    done = run_main_job(tmp_path / "results", f"--scenario={scenario}")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = RunStore(tmp_path / "results").runs()
    scores = load_run(run).scores
    flows = [(flow.contender, flow.up, flow.sport) for flow in scores.flows]
    assert flows == [("cubic", False, 40000), ("cubic", False, 40001), ("prague", True, 40002)]
    beside = scores.phases[1]
    assert beside.contender == "cubic*2+prague@up"
    upload = scores.flows[2]
    assert upload.accecn_syn and upload.ce and upload.ect1 > 0.99 * upload.data_packets
    assert 3 < (beside.contender_up_mbps or 0) < 4
    # The rate stepped where it was asked to, and the bottleneck's queue let no more through.
    (step,) = scores.lab["rate_steps"]
    assert (step["direction"], step["rate_bps"]) == ("down", parse_rate("8mbit")) and abs(step["t"] - 31) < 0.6
    series = scores.series
    down = [
        (t, (victim or 0) + (contender or 0))
        for t, victim, contender in zip(series.t, series.victim_mbps or [], series.contender_mbps or [], strict=True)
    ]
    before = [mbps for t, mbps in down if 22 < t < 30]
    after = [mbps for t, mbps in down if 34 < t < 45]
    assert sum(before) / len(before) > 9 and max(after) < 8.1
    assert json.loads((run / "lab.json").read_text())["verified_at_end"] is True
    # Of the probe beside the bottleneck the path loses and delays what it was asked to, and the gates allow for it.
    gates = {gate.name: gate.measured for gate in scores.validity.gates}
    assert 0 < float(gates["unshaped probe lost"].split()[0]) < 1
    assert scores.jitter_ms and 3 < scores.jitter_ms.p99 < 10
    page = (run / "report.html").read_text()
    assert all(text in page for text in ("8 Mbit/s down at 31", "its uploads", "there and back", "prague, up"))
