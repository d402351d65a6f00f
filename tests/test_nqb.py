# SPDX-License-Identifier: Apache-2.0
"""NQB (RFC 9956) and queue protection (RFC 9957) in the L queue, and dualpi2 on a bursty link.

The queue with protection is not in the default kernel:
`sojourn matrix nqb --kernel-source=hardware/kernel/queue_protection`.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Contrast, Expectation, Matrix
from sojourn.traffic.spec import Call, Flow, Probe

RATE, RTT = 50, 20  # Mbit/s, ms
SECONDS = 60
QUEUES = {
    "mainline": "dualpi2 nqb",
    "off": f"sch_dualpi2_qprot rate {RATE}mbit no_protect",
    "on": f"sch_dualpi2_qprot rate {RATE}mbit",
}
#: A game's packets at 60 per second, and those of a flow that answers marks.
PROBES = (Probe(rtt_us=RTT * 1000, interval_s=1 / 60, ecn="nqb"), Probe(rtt_us=RTT * 1000, ecn="ect1"))
GAME, L4S = "probes.0", "probes.1"


def unresponsive(kind: str, percent: int) -> Flow:
    return Flow(contender=kind, rtt_us=RTT * 1000, rate_bps=RATE * percent * 10_000, start_s=5)


#: What sends in addition to a Prague flow. The bursts are frames of 30 pictures per second.
LOADS: dict[str, dict[str, Any]] = {
    "game": {},
    "prague": {"flows": dumbbell.flows(["prague"], RTT)},
    "ect1-60%": {"flows": (unresponsive("udp-ect1", 60),)},
    "ect1-90%": {"flows": (unresponsive("udp-ect1", 90),)},
    "nqb-90%": {"flows": (unresponsive("udp-nqb", 90),)},
    "nqb-bursts": {"call": Call(bitrate_bps=12_000_000, ecn="nqb", rtt_us=RTT * 1000)},
}

#: The most packets that leave the bursty link at once.
BURST = 16
STEPS = {"dualpi2": "dualpi2", "dualpi2-step-2": "dualpi2 min_qlen_step 2"}
LINKS = {"smooth": None, "bursty": dumbbell.bursts(BURST)}


def protection(queue: str, load: str) -> Cell:
    more = LOADS[load]
    return Cell(
        name=f"{load}-{queue}",
        flows=(*dumbbell.flows(["prague"], RTT), *more.get("flows", ())),
        hops=(dumbbell.bottleneck(RATE, QUEUES[queue]),),
        probes=PROBES,
        call=more.get("call"),
        seconds=SECONDS,
    )


def link(step: str, kind: str) -> Cell:
    return Cell(
        name=f"link-{kind}-{step}",
        flows=dumbbell.flows(["prague", "cubic"], RTT),
        hops=(dumbbell.bottleneck(RATE, STEPS[step], path=LINKS[kind]),),
        probes=(Probe(rtt_us=RTT * 1000), Probe(rtt_us=RTT * 1000, ecn="ect1")),
        seconds=SECONDS,
    )


MATRIX = Matrix(
    name="nqb",
    title="NQB and queue protection in the L queue; dualpi2 on a bursty link",
    source="algorithms and defaults of RFC 9956 and RFC 9957, which have no measurements",
    cells=(
        *(protection(*point) for point in product(QUEUES, LOADS)),
        *(link(*point) for point in product(STEPS, LINKS)),
    ),
    repeat=1,
    columns=(
        Column(head="Prague Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="flow 2 Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="probe 1 P50 ms", metric="probes.0.p50_ms", digits=1),
        Column(head="probe 1 P99 ms", metric="probes.0.p99_ms", digits=1),
        Column(head="probe 1 lost", metric="probes.0.loss", digits=4),
        Column(head="L (ECT(1)) P50 ms", metric="probes.1.p50_ms", digits=1),
        Column(head="L (ECT(1)) P99 ms", metric="probes.1.p99_ms", digits=1),
        Column(head="sanctioned", metric="protection.sanctioned", digits=0),
        Column(head="flows sanctioned", metric="protection.sanctioned_flows", digits=0),
        Column(head="sanctioned share in the window", metric="protection.window_sanctioned_share", digits=4),
    ),
    charts=tuple(
        Chart(
            title=f"{load}: queue delay of a game's packets",
            unit="ms",
            series={"game": "probes.0.ccdf"},
            cells={queue: protection(queue, load).name for queue in QUEUES},
            ccdf=True,
        )
        for load in LOADS
    ),
    contrasts=tuple(
        Contrast(
            title=f"L's P99 with protection over that without, {load}",
            metric=f"{L4S}.p99_ms",
            cell=protection("on", load).name,
            reference=protection("off", load).name,
        )
        for load in LOADS
    ),
    expectations=(
        Expectation(cells=r"-on$", metric=f"{GAME}.loss", high=0),
        Expectation(cells=r"^game-on$", metric="protection.window_sanctioned_share", high=0),
        Expectation(cells=r"-90%-on$", metric="protection.sanctioned", low=100),
        Expectation(cells=r"-off$", metric="protection.sanctioned", high=0),
    ),
    notes="Probe 1 is a game's: 60 packets per second, DSCP 45, Not-ECT; on the links it is Not-ECT without a DSCP. "
    "mainline: dualpi2 with a filter for DSCP 45. off, on: the optional queue, queue protection off and on.",
)
test_cell = matrix_tests(MATRIX)
