# SPDX-License-Identifier: Apache-2.0
"""What a cell refuses, what a run of it is expected to take, and which sources decide it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sojourn.bottleneck import delivery_trace
from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.delivery_trace import DeliveryTrace
from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells.cell_run import CellJob
from sojourn.traffic.spec import Call, Flow, Probe, ShortFlows


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
        ({"contender": "udp"}, "udp: udp, udp-ect1, udp-nqb need rate_bps"),
        ({"contender": "cubic", "rate_bps": 1_000_000}, "cubic: .* others take none"),
        ({"contender": "udp", "rate_bps": 1_000_000, "up": True}, "udp: flows down only"),
        ({"contender": "udp", "rate_bps": 1_000_000, "pacing_bps": 1_000_000}, "udp: pacing_bps is for .* TCP only"),
        ({"contender": "quic-bbr", "pacing_bps": 1_000_000}, "quic-bbr: pacing_bps is for .* TCP only"),
    ],
)
def test_a_flow_is_what_its_contender_takes(flow: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Flow.model_validate({"rtt_us": 0} | flow)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"flows": (Flow(contender="quic-bbr", rtt_us=0),)},
            "quic-bbr is measured from its packets; set per_packet=True",
        ),
        ({"per_packet": True, "ip_version": 6}, "IPv4 without tunnels only"),
        ({"per_packet": True, "tunnel": "ipsec"}, "IPv4 without tunnels only"),
        (
            {"per_packet": True, "flows": (Flow(contender="cubic", rtt_us=0, up=True),)},
            "per_packet: supports flows down only, not up=True",
        ),
    ],
)
def test_single_packets_are_told_where_they_can_be(fields: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        cell(dumbbell.bottleneck(50, "pie"), **fields)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"replay_window": 64}, "replay_window: needs tunnel='ipsec', not ''"),
        ({"replay_window": 64, "tunnel": "wireguard"}, "needs tunnel='ipsec', not 'wireguard'"),
        ({"pacing_percent": (0, 100)}, "greater than 0"),
        ({"pacing_percent": (200, -1)}, "greater than 0"),
    ],
)
def test_what_would_have_no_effect_or_break_the_run_is_refused(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        cell(dumbbell.bottleneck(50, "pie"), **fields)


@pytest.mark.parametrize(
    ("most", "fields", "why"),
    [
        (
            {"flows": 64 * dumbbell.flows(["cubic"], 20)},
            {"flows": 65 * dumbbell.flows(["cubic"], 20)},
            "flows: 65, at most 64",
        ),
        ({"probes": 8 * (Probe(rtt_us=0),)}, {"probes": 9 * (Probe(rtt_us=0),)}, "probes: 9, at most 8 are supported"),
        (
            {"hops": (dumbbell.bottleneck(50, "pie", steps=2048 * [(1, 5)]),)},
            {"hops": (dumbbell.bottleneck(50, "pie", steps=2049 * [(1, 5)]),)},
            "steps of schedule and schedule_up of all hops: 4098, at most 4096 are supported",
        ),
        (
            {"per_packet": True, "flows": dumbbell.flows(5 * ["cubic"], range(5))},
            {"per_packet": True, "flows": dumbbell.flows(6 * ["cubic"], range(6))},
            "RTTs with per_packet: 6, at most 5 are supported",
        ),
        ({"hops": 59 * (Hop(),)}, {"hops": 60 * (Hop(),)}, "hops and RTTs together: 61, at most 60 are supported"),
    ],
)
def test_a_cell_asks_for_no_more_than_the_endpoints_take(
    most: dict[str, object], fields: dict[str, object], why: str
) -> None:
    assert cell(Hop(), **most)
    with pytest.raises(ValidationError, match=f"cell a: {why}"):
        cell(Hop(), **fields)


@pytest.mark.parametrize("beside", ["probes", "call", "short_flows"])
def test_with_a_queue_at_the_senders_nothing_has_a_delay_of_its_own(beside: str) -> None:
    hop, flows = dumbbell.bottleneck(50, "pie"), dumbbell.flows(["cubic"], 0)
    made = {"probes": lambda rtt: (Probe(rtt_us=rtt),), "call": lambda rtt: Call(rtt_us=rtt)} | {
        "short_flows": lambda rtt: ShortFlows(rtt_us=rtt)
    }
    assert cell(hop, flows=flows, sender_queue="fq", **{beside: made[beside](0)})
    with pytest.raises(ValidationError, match="sender_queue: flows, probes and calls must have an RTT of 0"):
        cell(hop, flows=flows, sender_queue="fq", **{beside: made[beside](1000)})


@pytest.mark.parametrize(
    ("flows", "numbers", "why"),
    [
        (dumbbell.flows(["cubic"], 20), (1,), "there is no flow 1, the first of 1 is 0"),
        (dumbbell.flows(["cubic"], 20), (-1,), "there is no flow -1"),
        ((Flow(contender="udp", rate_bps=1_000_000, rtt_us=0),), (0,), "flow 0 is not a TCP flow down"),
        ((Flow(contender="cubic", rtt_us=0, up=True),), (0,), "flow 0 is not a TCP flow down"),
    ],
)
def test_flows_to_be_mangled_are_there_and_tcp(flows: tuple[Flow, ...], numbers: tuple[int, ...], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        cell(Hop(mangle="to-ect1", mangled_flows=numbers), flows=flows)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"mangled_flows": (0,)}, "mangled_flows: needs mangle"),
        ({"host_queue": True}, "host_queue: down needs a qdisc with a queue for each flow: .*fq_codel"),
        ({"host_queue": True, "down": {"rate_bps": 1_000_000, "qdisc": "pfifo"}}, "host_queue: down needs"),
        ({"schedule": ({"at_s": 1, "rate_bps": 1_000_000},)}, "schedule: its direction has no rate"),
        ({"schedule_up": ({"at_s": 1, "rate_bps": 1_000_000},)}, "schedule_up: its direction has no rate"),
    ],
)
def test_a_middlebox_has_no_part_without_the_other_that_it_is_of(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Hop.model_validate(fields)


def test_a_copy_of_a_part_is_checked_with_its_cell() -> None:
    hop = dumbbell.bottleneck(50, "fq_codel").model_copy(update={"host_queue": True})
    assert cell(hop)
    with pytest.raises(ValidationError, match="host_queue: its filter supports IPv4 only"):
        cell(hop, ip_version=6)
    with pytest.raises(ValidationError, match="host_queue: down needs"):
        cell(hop.model_copy(update={"down": None}))


def test_short_flows_are_tcp() -> None:
    with pytest.raises(ValidationError, match=r"short flows are TCP: unknown contender 'quic-cubic'; known: .*cubic"):
        ShortFlows(contender="quic-cubic", rtt_us=0)


def test_a_swapped_cell_is_checked() -> None:
    short = cell(dumbbell.bottleneck(50, "pie"), short_flows=ShortFlows(rtt_us=0), per_packet=True)
    assert short.swapped("cubic", "prague").short_flows == ShortFlows(rtt_us=0, contender="prague")
    with pytest.raises(ValidationError, match="short flows are TCP"):
        short.swapped("cubic", "quic-cubic")


def test_a_trace_makes_the_same_cell_wherever_it_lies(tmp_path: Path) -> None:
    cells = []
    for name, times in (("a", [0, 3, 10]), ("b", [0, 3, 10]), ("c", [0, 4, 10])):
        (tmp_path / name).write_text(delivery_trace.text(times))
        cells.append(cell(dumbbell.slotted(DeliveryTrace.of_file(tmp_path / name), "pie")))
    here, there, other = cells
    assert here != there and here.digest() == there.digest() != other.digest()


def test_slots_stand_for_a_rate() -> None:
    link = DeliveryTrace(seconds=2)
    hop = dumbbell.slotted(link, "pie")
    assert hop.down and hop.down.rate_bps == link.rate_bps
    for odd in ({"down": None}, {"down": hop.down.model_copy(update={"rate_bps": 1_000_000})}):
        with pytest.raises(ValidationError, match="slots need `down` with their mean rate"):
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
    assert CellJob(cell(hop), 1, 40, 2, "x").work == mbit + 200
