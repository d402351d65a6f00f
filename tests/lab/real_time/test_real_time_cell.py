# SPDX-License-Identifier: Apache-2.0
"""Short cells in the virtual lab: what it alone has, and how they end; test_simulated_cell.py has what they measure."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Hop
from sojourn.harness.lab.contract import Lab
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells.real_time import EVIDENCE, RealTimeError, run_cell
from sojourn.harness.store.manifest import PARTIAL
from sojourn.scoring.validity import Limits
from sojourn.traffic.spec import Flow
from sojourn.traffic.tunnel import Kind
from tests.lab.test_matrix import matrix
from tests.lab.test_simulated_cell import PAIR, scored
from tests.lab.virtual import virtual_lab
from tests.processes import of_name
from tests.refusals import refusal

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with virtual_lab(tmp_path_factory.mktemp("lab"), one_core=True) as lab:
        yield lab


def in_real_time(lab: Lab, cell: Cell, folder: Path) -> dict[str, Any]:
    """Run a cell and return its scores; a host too busy for figures will do."""
    run_cell(lab, cell, folder, seed=1, limits=Limits(jitter_ms=50))
    return scored(cell, folder)


@pytest.mark.nightly
def test_a_flow_up_is_measured_behind_the_uplink(lab: Lab, tmp_path: Path) -> None:
    flows = tuple(Flow(contender="cubic", rtt_us=20_000, up=up) for up in (False, True))
    cell = Cell(name="both", flows=flows, hops=(dumbbell.asymmetric(6, "fq_codel", 2, "pfifo limit 20"),), seconds=6)
    down, up = in_real_time(lab, cell, tmp_path)["flows"]
    # The acknowledgements of what goes down take a tenth of the uplink.
    assert 0.8 < up["d_ss_mbps"] / (0.956 * 2) < 1 and up["up"]
    assert down["d_ss_mbps"] > 2.2, "more than the way up carries"
    assert not [q for q in lab.router.state().qdiscs if q["kind"] in ("htb", "netem")]


@pytest.mark.nightly
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
    with refusal(RealTimeError, "unsupported", "cell two: ", "virtual"):
        run_cell(lab, Cell(name="two", flows=PAIR, hops=(box, box), seconds=6), tmp_path, seed=1)


def test_a_run_that_is_stopped_undoes_everything(lab: Lab, tmp_path: Path) -> None:
    cell = Cell(name="long", flows=PAIR, hops=(dumbbell.bottleneck(20, "fq_codel"),), seconds=60)
    stopped, failures = Event(), list[BaseException]()

    def run() -> None:
        try:
            run_cell(lab, cell, tmp_path, seed=1, stopped=stopped)
        except RealTimeError as told:
            failures.append(told)

    thread = Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 120
    while "iperf3" not in lab.sender.run(["ps", "-e"]):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    stopped.set()
    thread.join(timeout=120)
    assert not thread.is_alive() and "stopped" in str(failures[0])
    for place in (lab.sender, lab.receiver, lab.server, lab.client):
        assert "iperf3" not in place.run(["ps", "-e"])
    assert not of_name(psutil.Process().children(recursive=True), "dumpcap", "irtt")


@pytest.mark.nightly
def test_an_interrupted_matrix_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C while a cell runs; test_matrix.py has what is kept then and made when asked again."""
    process = matrix(tmp_path, "labs", "--lab=virtual", "-k", "20mbit", "--repeat=1")
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(f"labs-virtual/*/seed-1{PARTIAL}/{EVIDENCE}/sending-*.jsonl")):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.1)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert len(children) > 10 and process.returncode != 0 and not psutil.wait_procs(children, timeout=5)[1]
    assert not list(tmp_path.glob("*/*/seed-1*"))
