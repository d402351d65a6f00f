# SPDX-License-Identifier: Apache-2.0
"""What the simulated lab refuses before a guest starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.bottleneck import delivery_trace
from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.delivery_trace import DeliveryTrace
from sojourn.bottleneck.spec import Hop
from sojourn.hardware.simulation import SimulationError
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells import simulated
from sojourn.traffic.spec import Flow, ShortFlows
from tests.refusals import refusal


def test_a_trace_that_another_machine_has_not_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").write_text(delivery_trace.text([0, 3, 10]))
    hop = dumbbell.slotted(DeliveryTrace.of_file(tmp_path / "link"), "pie")
    asked = Cell(name="a", flows=dumbbell.flows(["cubic"], 20), hops=(hop,), seconds=10)
    (tmp_path / "link").unlink()
    with refusal(SimulationError, "unreadable-file", f" {tmp_path}/link: "):
        simulated._bring(asked, tmp_path)


def test_short_flows_alone_are_not_for_iperf3(tmp_path: Path) -> None:
    alone = Cell(name="alone", hops=(Hop(),), seconds=10, short_flows=ShortFlows(rtt_us=0))
    with refusal(SimulationError, "unsupported", "cell alone: --endpoints=iperf3: "):
        simulated.run_cell(alone, tmp_path, seed=1, endpoints="iperf3")


@pytest.mark.parametrize(("start_s", "stop_s", "length"), [(1, 3.5, "2.5"), (0, 0.5, "0.5"), (0.25, None, "9.75")])
def test_a_flow_of_a_part_of_a_second_is_not_for_iperf3(
    tmp_path: Path, start_s: float, stop_s: float | None, length: str
) -> None:
    flow = Flow(contender="cubic", rtt_us=0, start_s=start_s, stop_s=stop_s)
    with refusal(SimulationError, "unsupported", "cell half: --endpoints=iperf3: ", f" {length} s"):
        simulated.run_cell(
            Cell(name="half", flows=(flow,), hops=(Hop(),), seconds=10), tmp_path, seed=1, endpoints="iperf3"
        )
