# SPDX-License-Identifier: Apache-2.0
"""Short cells by the code of the labs in real time, in a simulated machine: what they measure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells import simulated_call
from sojourn.harness.matrix.cells.cell_run import CellJob, write_scores
from sojourn.traffic.spec import Call, Flow, Probe

pytestmark = pytest.mark.lab
PAIR = dumbbell.flows(["prague", "cubic-noecn"], 20)


def scored(cell: Cell, folder: Path) -> dict[str, Any]:
    """Score the run of a cell."""
    write_scores(CellJob(cell, 1, window_s=3, tail_s=0.5, inputs=""), folder)
    told: dict[str, Any] = json.loads((folder / "scores.json").read_text())
    print([(flow["contender"], flow["d_ss_mbps"], flow.get("rtt_mean_ms")) for flow in told["flows"]], told.get("wire"))
    return told


def test_a_step_with_a_flow_that_comes_and_goes(tmp_path: Path) -> None:
    """6, from 4 s on 3 Mbit/s; CUBIC from 1 to 6 s beside Prague; a probe through their queue."""
    flows = (PAIR[0], Flow(contender="cubic-noecn", rtt_us=20_000, start_s=1, stop_s=6))
    hop = dumbbell.bottleneck(6, "fq_codel flows 1", steps=[(4, 3)])
    cell = Cell(name="step", flows=flows, hops=(hop,), seconds=8, probes=(Probe(rtt_us=20_000),))
    simulated_call.run_cell(cell, tmp_path, seed=1)
    told = scored(cell, tmp_path)

    samples = pl.read_csv(tmp_path / "flows.csv", infer_schema_length=None)
    second = samples.filter(pl.col("flow") == 1)["t_s"]
    assert 1 <= second[0] < 5 and second[-1] == 6
    assert samples["t_s"].max() == 8 and samples["srtt_us"].max() > 20_000
    assert [period["rate_mbps"] for period in told["periods"]] == [6, 3]
    assert told["periods"][1]["goodput_mbps"] == pytest.approx(0.956 * 3, rel=0.1)
    assert told["flows"][0]["ce_share"] > 0 and told["flows"][1]["retrans"] > 0
    probe = told["probes"][0]
    # Prague's alpha starts at 0, so CoDel's rare marks hardly reduce its queue in 8 s.
    assert probe["sent"] == pytest.approx(800, abs=10) and 10 < probe["p50_ms"] < 120
    queues = [json.loads(line) for line in (tmp_path / "queues.jsonl").read_text().splitlines()]
    assert {(it["hop"], it["dev"]) for it in queues} == {(0, "lan"), (0, "wan")}
    assert queues[0]["t"] <= 0.2 and queues[-1]["t"] >= 8


def test_a_call_beside_a_flow_is_proven_by_its_marks(tmp_path: Path) -> None:
    """Two browsers in the L queue beside Prague: what arrives each way is the bit rate asked for, as ECT(1) or CE."""
    call = Call(bitrate_bps=1_000_000, ecn="ect1", rtt_us=20_000)
    probe = Probe(rtt_us=20_000, ecn="ect1", round_trip=True)
    hop = dumbbell.bottleneck(6, "dualpi2")
    cell = Cell(name="call", flows=PAIR[:1], hops=(hop,), seconds=4.5, call=call, probes=(probe,))
    simulated_call.run_cell(cell, tmp_path, seed=1)
    told = scored(cell, tmp_path)
    assert all(0.5 < way["mbps"] < 1.3 for way in told["call"])
    assert told["probes"][0]["p50_ms"] > 20 and told["flows"][0]["d_ss_mbps"] > 3
    gates = {gate["name"]: gate["ok"] for gate in json.loads((tmp_path / "cell.json").read_text())["gates"]}
    assert gates["call down ect1"] and gates["call up ect1"]


def test_a_scream_call_in_a_cell_is_proven_and_its_marks_and_rates_are_scored(tmp_path: Path) -> None:
    """Two browsers that answer marks with Prague: media are ECT(1) or CE, both ends count feedback."""
    call = Call(bitrate_bps=1_000_000, cc="scream", rtt_us=20_000)
    cell = Cell(name="scream", flows=PAIR[:1], hops=(dumbbell.bottleneck(6, "dualpi2"),), seconds=4.5, call=call)
    simulated_call.run_cell(cell, tmp_path, seed=1)
    down, up = scored(cell, tmp_path)["call"]
    assert 0 < down["ce_share"] < 1 and 300 < down["packet_bytes"] < 1250
    assert 0.1 < down["available_min_mbps"] <= down["available_max_mbps"] and up["available_max_mbps"] > 0.5
    gates = {gate["name"]: gate["ok"] for gate in json.loads((tmp_path / "cell.json").read_text())["gates"]}
    expected = ("call down ect1", "call up ect1", "call's feedback received (server)")
    assert all(gates[name] for name in expected)


def test_media_alone_and_with_a_flow_has_its_time_in_the_queue_and_its_frames(tmp_path: Path) -> None:
    """A call of 1 of 6 Mbit/s, alone for 7 s and 9 s with CUBIC in a deep buffer, whose last 2 s are not scored."""
    call = Call(bitrate_bps=1_000_000, rtt_us=20_000)
    cubic = Flow(contender="cubic-noecn", rtt_us=20_000, start_s=7)
    cell = Cell(name="media", flows=(cubic,), hops=(dumbbell.bottleneck(6, "pfifo"),), seconds=16, call=call)
    simulated_call.run_cell(cell, tmp_path, seed=1)
    alone, loaded = scored(cell, tmp_path)["media"]
    print(alone, loaded)
    assert (alone["contender"], loaded["contender"]) == (None, "cubic-noecn")
    # A packet of 1200 bytes takes 1.7 ms, and a frame's packets leave together; CUBIC fills 1000 packets.
    assert 1 < alone["queue_p99_ms"] < 10 and alone["loss"] == 0 and 0.5 < alone["mbps"] < 1.3
    assert loaded["queue_p50_ms"] > 100 and loaded["contender_mbps"] > 3
    # Of the camera's 31 frames per second, in the 2 s that are scored.
    assert alone["frames"] == pytest.approx(62, abs=4) and alone["frames_in_time"] > 0.9
    assert 10 < alone["frame_p50_ms"] < 100 < loaded["frame_p50_ms"]
    ways = pl.read_csv(tmp_path / "pictures.csv").group_by("talk").len().sort("talk")
    assert ways["len"].to_list() == pytest.approx([16 * 31] * 2, rel=0.25)
