# SPDX-License-Identifier: Apache-2.0
"""Filters of queues in the script of a simulated cell."""

from __future__ import annotations

from sojourn.bottleneck import readback
from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.delivery_trace import DeliveryTrace
from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells.guest import queues
from sojourn.harness.matrix.cells.guest.script import script
from sojourn.traffic.spec import Flow, Probe

FILTER = "filter add dev {dev} parent 10: protocol {protocol} prio {prio} flower ip_tos 0xb4/0xfc classid 10:2"


def cell(*hops: Hop) -> Cell:
    return Cell(name="a", flows=dumbbell.flows(["cubic"], 20), hops=hops, seconds=10)


def test_a_cell_without_filters_queries_none() -> None:
    plain = cell(dumbbell.bottleneck(10, "dualpi2"), dumbbell.bottleneck(50, "fq_codel"))
    assert "flower" not in script(plain, 1)
    queried = readback.queries(*queues.shown(plain, "hop0"))
    assert [line for line in script(plain, 1).splitlines() if line.startswith("show hop0 ")] == [
        f"show hop0 {query}" for query in queried
    ]


def test_filters_come_after_their_queue_and_are_queried_after_all_else() -> None:
    asked = cell(dumbbell.bottleneck(50, "pie"), dumbbell.asymmetric(10, "dualpi2 nqb", 5, "dualpi2"))
    lines = script(asked, 1).splitlines()
    filters = [
        f"tc hop1 {FILTER.format(dev='lan', protocol=protocol, prio=prio)}"
        for protocol, prio in (("ip", 1), ("ipv6", 2))
    ]
    assert [line for line in lines if "flower" in line] == filters
    queue = next(line for line in lines if line.startswith("tc hop1 qdisc add dev lan") and "dualpi2" in line)
    shows = [n for n, line in enumerate(lines) if line.startswith("show hop1 ")]
    assert queue.endswith(" dualpi2"), "nqb is no word of tc"
    assert lines.index(queue) < lines.index(filters[0]) < shows[0]
    assert shows == list(range(shows[0], shows[0] + len(shows)))
    queried = [f"show hop1 {query}" for query in readback.filter_queries(*queues.shown(asked, "hop1"))]
    assert [lines[n] for n in shows[-2:]] == queried


def test_a_queue_before_a_delivery_trace_has_its_filters_too() -> None:
    asked = cell(dumbbell.slotted(DeliveryTrace(seconds=1), "dualpi2 nqb"))
    assert f"tc hop0 {FILTER.format(dev='lan', protocol='ip', prio=1)}\n" in script(asked, 1)


def test_what_is_marked_nqb_has_dscp_45_and_no_ecn() -> None:
    hop = dumbbell.bottleneck(10, "dualpi2 nqb")
    udp = Flow(contender="udp-nqb", rtt_us=20_000, rate_bps=1_000_000)
    asked = Cell(name="a", flows=(udp,), hops=(hop,), probes=(Probe(rtt_us=20_000, ecn="nqb"),), seconds=10)
    lines = script(asked, 1).splitlines()
    probe = next(line for line in lines if line.startswith("probe "))
    datagrams = next(line for line in lines if line.startswith("datagrams "))
    assert probe.split()[5] == datagrams.split()[6] == str(45 << 2)
