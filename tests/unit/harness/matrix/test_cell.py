# SPDX-License-Identifier: Apache-2.0
"""What a cell refuses, what a run of it is expected to take, and which sources decide it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bottleneck.slots import Slots
from harness.matrix import dumbbell
from harness.matrix.cell import Cell, Flow, Hop, ShortFlows
from harness.matrix.cell_run import Job


def cell(hop: Hop, **fields: object) -> Cell:
    return Cell.model_validate(
        {"name": "a", "flows": dumbbell.flows(["cubic"], 20), "hops": (hop,), "seconds": 60} | fields
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"flows": (Flow(contender="cubic", rtt_us=0, start_s=60),)}, "a flow cannot start at 60 s of 60"),
        ({"short_flows": ShortFlows(rtt_us=0, start_s=70)}, "a flow cannot start at 70 s of 60"),
        ({"seconds": 30}, "a rate cannot change at 30 s of 30"),
    ],
)
def test_nothing_begins_when_the_cell_has_ended(fields: dict[str, object], told: str) -> None:
    hop = dumbbell.bottleneck(50, "pie", steps=[(30, 5)])
    assert cell(hop)
    with pytest.raises(ValidationError, match=told):
        cell(hop, **fields)


@pytest.mark.parametrize(
    ("flow", "told"),
    [
        ({"contender": "cubicc"}, "unknown contender 'cubicc'; known: .*quic-cubic.*udp-ect1"),
        ({"contender": "udp"}, "udp: udp and udp-ect1 need a rate_bps"),
        ({"contender": "cubic", "rate_bps": 1_000_000}, "cubic: .* others have none"),
        ({"contender": "udp", "rate_bps": 1_000_000, "up": True}, "udp goes down only"),
    ],
)
def test_a_flow_is_what_its_contender_takes(flow: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Flow.model_validate({"rtt_us": 0} | flow)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"flows": (Flow(contender="quic-bbr", rtt_us=0),)}, "quic-bbr is measured by its packets: per_packet=True"),
        ({"per_packet": True, "ip_version": 6}, "IPv4 without tunnels only"),
        ({"per_packet": True, "tunnel": "ipsec"}, "IPv4 without tunnels only"),
    ],
)
def test_single_packets_are_told_where_they_can_be(fields: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        cell(dumbbell.bottleneck(50, "pie"), **fields)


def test_slots_stand_for_a_rate() -> None:
    link = Slots(seconds=2)
    hop = dumbbell.slotted(link, "pie")
    assert hop.down and hop.down.rate_bps == link.rate_bps
    for odd in ({"down": None}, {"down": hop.down.model_copy(update={"rate_bps": 1_000_000})}):
        with pytest.raises(ValidationError, match="slots need a way down of their mean rate"):
            Hop.model_validate(dict(hop) | odd)


@pytest.mark.parametrize(
    ("hop", "mbit"),
    [
        (dumbbell.bottleneck(50, "pie"), 60 * 50),
        (dumbbell.bottleneck(1000, "cake bandwidth 2mbit flowblind"), 60 * 2),
        (dumbbell.bottleneck(50, "pie", steps=[(30, 5)]), 30 * 50 + 30 * 5),
    ],
)
def test_the_work_of_a_run_is_what_its_queue_lets_through(hop: Hop, mbit: float) -> None:
    assert Job(cell(hop), 1, 40, 2, "x").work == mbit + 200
