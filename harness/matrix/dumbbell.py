# SPDX-License-Identifier: Apache-2.0
"""Building blocks of transport experiments: bottlenecks, bursts, competing flows, whole cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.delivery_trace import DeliveryTrace
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.shaper import RateStep
from sojourn.bottleneck.spec import Direction, Hop
from sojourn.traffic.spec import Flow, Probe

LINK_MBPS = 1000
"""Rate of a middlebox that is not a bottleneck, Mbit/s."""
PUBLISHED = {"prague": "prague-2020", "cubic": "cubic-accecn", "reno": "reno-accecn"}
"""Contenders of "L4S Tests" that differ from Sojourn's of the same name.

Its Prague is that of 2020, without RTT independence (20 ms with 10 ms: 15.84 : 30.77 Mbit/s), and `tcp_ecn=3` at both
ends makes its CUBIC and Reno negotiate accurate ECN, also where a middlebox then clears their ECN field ("noecn").
"""
DUALPI2_2020 = "dualpi2 min_qlen_step 2"
"""The dualpi2 of "L4S Tests" (2020): its step marks only packets with two others ahead in the L queue.

Mainline's requires none, and at 10 Mbit/s a single packet exceeds the threshold of 1 ms: Prague with CUBIC, 20 ms,
has 2.7 : 6.6 Mbit/s there, with two packets 6.1 : 3.2, published 6.0 : 3.2.
"""
QDISCS_2020 = {"dualpi2": DUALPI2_2020}
"""Queues of "L4S Tests" that differ from mainline's of the same name."""
FLENT_DELAY_S = 5
"""How long the public harness's flent measures before its flows begin; rates change by the clock of the test."""


def bps(mbps: float) -> int:
    """Return bit/s of Mbit/s."""
    return round(mbps * 1e6)


def bottleneck(
    mbps: float, qdisc: str, *, path: Impairment | None = None, steps: Sequence[tuple[float, float]] = ()
) -> Hop:
    """Return a middlebox with the same rate (Mbit/s), qdisc and path both ways.

    `steps` are (s, Mbit/s) at which the rate changes, both ways as in the public harness.
    """
    way = Direction(rate_bps=bps(mbps), qdisc=qdisc, path=path or Impairment())  # type: ignore[arg-type]
    schedule = tuple(RateStep(at_s=at, rate_bps=bps(rate)) for at, rate in steps)
    return Hop.model_validate({"down": way, "up": way, "schedule": schedule, "schedule_up": schedule})


def slotted(slots: DeliveryTrace, qdisc: str, up_mbps: float = LINK_MBPS) -> Hop:
    """Return a middlebox that sends down at `slots` from `qdisc`, and up at a fixed rate (Mbit/s)."""
    up = {"rate_bps": bps(up_mbps), "qdisc": "pfifo limit 10000"}
    return Hop.model_validate({"down": {"rate_bps": slots.rate_bps, "qdisc": qdisc}, "up": up, "slots": slots})


def bleached(hop: Hop, flow: int) -> Hop:
    """Return the middlebox as one that clears the ECN field of a flow that goes down, by its number: "noecn"."""
    return hop.model_copy(update={"mangle": "to-not-ect", "mangled_flows": (flow,)})


def before_sce_receiver(contenders: Sequence[str]) -> tuple[Hop, ...]:
    """Return the middlebox that makes DCTCP's receiver echo like one of the SCE kernel; none without a DCTCP flow.

    A receiver with `net.ipv4.tcp_sce=1` (chromi/sce, net/ipv4/tcp_input.c), as in the SCE publications, reports to its
    DCTCP packets with CE and with ECT(0), not those with ECT(1): in a queue that marks SCE, an echo of CE lasts
    until an ECT(0) arrives. Mainline's ignores packets that are Not-ECT, so ECT(1) is cleared behind the queue.
    """
    numbers = tuple(n for n, name in enumerate(contenders) if name == "dctcp")
    return (Hop(mangle="ect1-to-not-ect", mangled_flows=numbers),) if numbers else ()


def asymmetric(down_mbps: float, down: str, up_mbps: float, up: str) -> Hop:
    """Return a middlebox with a separate rate (Mbit/s) and qdisc each way."""
    return Hop.model_validate(
        {"down": {"rate_bps": bps(down_mbps), "qdisc": down}, "up": {"rate_bps": bps(up_mbps), "qdisc": up}}
    )


def bursts(packets: int) -> Impairment:
    """Return a path that lets packets out in bursts, as the public harness of "L4S Tests" does.

    netem: 0.2 ms of delay, a slot each 0.8 to 5 ms with at most `packets`.
    """
    return Impairment(delay_us=200, slot_us=800, slot_max_us=5000, slot_packets=packets, limit=10_000)


def flows(
    contenders: Sequence[str], rtt_ms: float | Sequence[float], gap_s: float = 0, start_s: float = 0
) -> tuple[Flow, ...]:
    """Return one flow for each contender, `gap_s` apart from `start_s` on, with one RTT (ms) for all or one each."""
    rtts = [rtt_ms] * len(contenders) if isinstance(rtt_ms, int | float) else rtt_ms
    return tuple(
        Flow(contender=name, rtt_us=round(rtt * 1000), start_s=start_s + n * gap_s)
        for n, (name, rtt) in enumerate(zip(contenders, rtts, strict=True))
    )


def rate_change(
    name: str, row: Mapping[str, str], qdisc: str, steps: Sequence[tuple[float, float]], *, burst_packets: int
) -> Cell:
    """Return a cell of one flow under which the rate of both directions changes, as in S2 and S3 of "L4S Tests".

    `row` is of its CSV files: `cc`, `rate_initial_mbps`, `rtt_ms` and `burstiness`: if "bursty", packets are in bursts
    of `burst_packets` (`bursts`). `steps` are (s, Mbit/s) by the clock of the test, which the flow begins 5 s into.
    """
    path = bursts(burst_packets) if row["burstiness"] == "bursty" else None
    rtt_ms = float(row["rtt_ms"])
    return Cell(
        name=name,
        flows=flows([PUBLISHED[row["cc"]]], rtt_ms, start_s=FLENT_DELAY_S),
        hops=(bottleneck(float(row["rate_initial_mbps"]), qdisc, path=path, steps=steps),),
        seconds=60 + FLENT_DELAY_S,
        probes=(Probe(rtt_us=round(rtt_ms * 1000), interval_s=0.05, round_trip=True),),
    )
