# SPDX-License-Identifier: Apache-2.0
"""Short cells by the code of the labs in real time: in a simulated machine what they measure, in the virtual lab what
it alone has."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import polars as pl
import psutil
import pytest

from harness import dumbbell, simulated_cell
from harness.cell import Call, Cell, Flow, Hop, Probe
from harness.cell_run import Job, score
from harness.lab import Lab
from harness.live_cell import EVIDENCE, LiveCellError, run_cell
from harness.run import virtual_lab
from harness.store import PARTIAL
from scoring.validity import Limits
from tests.lab.test_matrix import matrix
from traffic.tunnel import Kind

pytestmark = pytest.mark.lab
PAIR = dumbbell.flows(["prague", "cubic-noecn"], 20)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with virtual_lab(tmp_path_factory.mktemp("lab"), one_core=True) as lab:
        yield lab


def scored(cell: Cell, folder: Path) -> dict[str, Any]:
    """Score the run of a cell."""
    score(Job(cell, 1, window_s=3, tail_s=0.5, inputs=""), folder)
    told: dict[str, Any] = json.loads((folder / "scores.json").read_text())
    print([(flow["contender"], flow["d_ss_mbps"], flow.get("rtt_mean_ms")) for flow in told["flows"]], told.get("wire"))
    return told


def in_real_time(lab: Lab, cell: Cell, folder: Path) -> dict[str, Any]:
    """Run a cell and return its scores; a host too busy for figures will do."""
    run_cell(lab, cell, folder, seed=1, limits=Limits(jitter_ms=50))
    return scored(cell, folder)


def test_a_step_with_a_flow_that_comes_and_goes(tmp_path: Path) -> None:
    """6, from 4 s on 3 Mbit/s; CUBIC from 1 to 6 s beside Prague; a probe through their queue."""
    flows = (PAIR[0], Flow(contender="cubic-noecn", rtt_us=20_000, start_s=1, stop_s=6))
    hop = dumbbell.bottleneck(6, "fq_codel flows 1", steps=[(4, 3)])
    cell = Cell(name="step", flows=flows, hops=(hop,), seconds=8, probes=(Probe(rtt_us=20_000),))
    simulated_cell.run_cell(cell, tmp_path, seed=1)
    told = scored(cell, tmp_path)

    samples = pl.read_csv(tmp_path / "flows.csv", infer_schema_length=None)
    second = samples.filter(pl.col("flow") == 1)["t_s"]
    assert 1 <= second[0] < 5 and second[-1] == 6
    assert samples["t_s"].max() == 8 and samples["srtt_us"].max() > 20_000
    assert [period["rate_mbps"] for period in told["periods"]] == [6, 3]
    assert told["periods"][1]["goodput_mbps"] == pytest.approx(0.956 * 3, rel=0.1)
    assert told["flows"][0]["ce_share"] > 0 and told["flows"][1]["retrans"] > 0
    probe = told["probes"][0]
    assert probe["sent"] == pytest.approx(800, abs=10) and 10 < probe["p50_ms"] < 60
    queues = [json.loads(line) for line in (tmp_path / "queues.jsonl").read_text().splitlines()]
    assert {(it["hop"], it["dev"]) for it in queues} == {(0, "lan"), (0, "wan")}
    assert queues[0]["t"] <= 0.2 and queues[-1]["t"] >= 8


def test_a_flow_up_is_measured_behind_the_uplink(lab: Lab, tmp_path: Path) -> None:
    flows = tuple(Flow(contender="cubic", rtt_us=20_000, up=up) for up in (False, True))
    cell = Cell(name="both", flows=flows, hops=(dumbbell.asymmetric(6, "fq_codel", 2, "pfifo limit 20"),), seconds=6)
    down, up = in_real_time(lab, cell, tmp_path)["flows"]
    # The acknowledgements of what goes down take a tenth of the uplink.
    assert 0.8 < up["d_ss_mbps"] / (0.956 * 2) < 1 and up["up"]
    assert down["d_ss_mbps"] > 2.2, "more than the way up carries"
    assert not [q for q in lab.router.state().qdiscs if q["kind"] in ("htb", "netem")]


@pytest.mark.parametrize(("kind", "largest", "seen"), [("wireguard", 1480, 1), ("fou", 1500, 1), ("fou-auto", 1500, 2)])
def test_a_tunnel_is_one_flow_unless_it_varies_its_port(
    lab: Lab, tmp_path: Path, kind: Kind, largest: int, seen: int
) -> None:
    """fq_codel sees outer headers: in one flow Prague rules, in two both share alike. ECN shows outside, whole."""
    hops = (Hop(), dumbbell.bottleneck(6, "fq_codel"), Hop())
    told = in_real_time(lab, Cell(name=kind, flows=PAIR, hops=hops, seconds=6, tunnel=kind), tmp_path)
    wire = told["wire"]
    assert wire["flows"] == seen and wire["largest_bytes"] == largest
    assert wire["ect1"] > 0.3 and wire["not_ect"] > 0.05 and wire["ce"] > 0.005 and wire["ect0"] < 0.01
    assert told["flows"][0]["ce_share"] > 0.005  # the mark outside reached the flow inside
    assert (told["ratio"] > 2.5) == (seen == 1)
    for place in (lab.sender, lab.receiver):
        links = place.run(["ip", "-o", "link"])
        assert "sojourn" not in links and "5555" not in place.run(["ip", "fou", "show"])


def test_what_the_lab_lacks_is_one_line(lab: Lab, tmp_path: Path) -> None:
    box = dumbbell.bottleneck(20, "fq_codel")
    with pytest.raises(LiveCellError, match=r"^cell two: the virtual lab has only one middlebox, not 2$"):
        run_cell(lab, Cell(name="two", flows=PAIR, hops=(box, box), seconds=6), tmp_path, seed=1)


def test_a_run_that_is_stopped_undoes_everything(lab: Lab, tmp_path: Path) -> None:
    cell = Cell(name="long", flows=PAIR, hops=(dumbbell.bottleneck(20, "fq_codel"),), seconds=60)
    stopped, failures = Event(), list[BaseException]()

    def run() -> None:
        try:
            run_cell(lab, cell, tmp_path, seed=1, stopped=stopped)
        except LiveCellError as told:
            failures.append(told)

    thread = Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 30
    while "iperf3" not in lab.sender.run(["ps", "-e"]):
        assert time.monotonic() < deadline
    stopped.set()
    thread.join(timeout=20)
    assert not thread.is_alive() and "stopped" in str(failures[0])
    for place in (lab.sender, lab.receiver, lab.server, lab.client):
        assert "iperf3" not in place.run(["ps", "-e"])
    assert not [child for child in psutil.Process(os.getpid()).children(True) if child.name() in ("dumpcap", "irtt")]


def test_an_interrupted_matrix_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C while a cell runs; test_matrix.py has what is kept then and made when asked again."""
    process = matrix(tmp_path, "labs", "--lab=virtual", "-k", "20mbit", "--seeds=1")
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(f"labs-virtual/*/seed-1{PARTIAL}/{EVIDENCE}/sending-*.jsonl")):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.1)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert len(children) > 10 and process.returncode != 0 and not psutil.wait_procs(children, timeout=5)[1]
    assert not list(tmp_path.glob("*/*/seed-1*"))


def test_a_call_beside_a_flow_is_proven_by_its_marks(tmp_path: Path) -> None:
    """Two browsers in the L queue beside Prague: what arrives each way is the bit rate asked for, as ECT(1) or CE."""
    call = Call(bitrate_bps=1_000_000, ecn="ect1", rtt_us=20_000)
    probe = Probe(rtt_us=20_000, ecn="ect1", round_trip=True)
    hop = dumbbell.bottleneck(6, "dualpi2")
    cell = Cell(name="call", flows=PAIR[:1], hops=(hop,), seconds=8, call=call, probes=(probe,))
    simulated_cell.run_cell(cell, tmp_path, seed=1)
    told = scored(cell, tmp_path)
    assert all(0.5 < way["mbps"] < 1.3 for way in told["call"])
    assert told["probes"][0]["p50_ms"] > 20 and told["flows"][0]["d_ss_mbps"] > 3
    gates = {gate["name"]: gate["ok"] for gate in json.loads((tmp_path / "cell.json").read_text())["gates"]}
    assert gates["call down ect1"] and gates["call up ect1"]
