# SPDX-License-Identifier: Apache-2.0
"""Which cells a lab of real time takes, and the bottleneck that it makes of one."""

from __future__ import annotations

from typing import Any

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.capabilities import missing_capability
from sojourn.harness.matrix.cells.real_time import bottleneck_of
from sojourn.traffic.spec import Flow, Probe, ShortFlows

BOX = dumbbell.bottleneck(50, "dualpi2")
PAIR = dumbbell.flows(["prague", "cubic"], 20)


def cell(flows: tuple[Flow, ...] = PAIR, hops: tuple[Hop, ...] = (BOX,), **more: Any) -> Cell:
    return Cell(name="c", flows=flows, hops=hops, seconds=60, **more)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (cell(), ""),
        (cell(hops=(Hop(), BOX, Hop()), tunnel="wireguard"), ""),
        (cell(hops=(BOX, BOX)), "only one middlebox, not 2"),
        (cell(hops=(Hop(down=BOX.down),)), "no middlebox that shapes one direction alone"),
        (cell(hops=(Hop(),)), "no middlebox that shapes one direction alone"),
        (cell(hops=(BOX.model_copy(update={"mangle": "to-ect1"}),)), "no middlebox that changes the ECN field or DSCP"),
        (cell(dumbbell.flows(["prague", "cubic"], (20, 80))), "only one RTT, not 2"),
        (cell(probes=(Probe(rtt_us=10_000),)), "only one RTT, not 2"),
        (cell((), short_flows=ShortFlows(rtt_us=20_000)), "no short flows"),
        (cell(offloads=True), "no segmentation offloads"),
        (cell(tunnel="ipsec"), "no IPsec"),
        (cell(tunnel="openvpn"), "no OpenVPN"),
        (
            cell((*dumbbell.flows(["cubic"], 20), Flow(contender="cubic", rtt_us=20_000, pacing_bps=10**6))),
            "no flows with a limited sending rate",
        ),
    ],
)
def test_what_real_time_lacks_is_told(asked: Cell, says: str) -> None:
    assert missing_capability(asked, "virtual") == missing_capability(asked, "apu") == says


def test_simulated_time_lacks_nothing() -> None:
    asked = (cell(hops=(BOX, BOX)), cell(tunnel="ipsec"), cell(tunnel="fou"))
    assert [missing_capability(one, "sim") for one in asked] == ["", "", ""]


def test_the_flows_rtt_is_the_paths_delay_in_halves() -> None:
    made = bottleneck_of(cell(dumbbell.flows(["prague"], 33.333), hops=(Hop(), BOX)))
    assert made.rtt_us == 33_333
    assert (made.down.rate_bps, str(made.up.qdisc)) == (50_000_000, "dualpi2")


def test_a_paths_own_bursts_stay() -> None:
    made = bottleneck_of(cell(hops=(dumbbell.bottleneck(50, "fq_codel", path=dumbbell.bursts(16)),)))
    assert made.down.path == Impairment(delay_us=10_200, slot_us=800, slot_max_us=5000, slot_packets=16, limit=10_000)
