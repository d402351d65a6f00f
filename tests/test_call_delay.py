# SPDX-License-Identifier: Apache-2.0
"""Between-flow induced delay: what a call in dualpi2's L queue does to the round trips of others in that queue."""

from __future__ import annotations

from math import inf

from harness.matrix import dumbbell
from harness.matrix.cases import matrix_targets, matrix_tests
from harness.matrix.cell import Call, Cell, Probe
from harness.matrix.matrix import Chart, Column, Contrast, Matrix

RATES = (5, 10, 20)
RTT_MS, CALL_BPS = 20, 2_500_000
QUEUES = {"L": "dualpi2", "fq": "fq_codel"}


def cell(rate: int, name: str, qdisc: str, call: bool) -> Cell:
    return Cell(
        name=f"{name}-{rate}mbit",
        hops=(dumbbell.bottleneck(rate, qdisc),),
        seconds=60,
        call=Call(bitrate_bps=CALL_BPS, ecn="ect1", rtt_us=RTT_MS * 1000) if call else None,
        probes=(Probe(rtt_us=RTT_MS * 1000, ecn="ect1", round_trip=True),),
    )


def above_fq(rate: int, low: float = -inf) -> Contrast:
    title = f"{rate} Mbit/s: P99 with the call in L over that in fq_codel"
    ours, theirs = (f"call-in-{queue}-{rate}mbit" for queue in QUEUES)
    return Contrast(title=title, metric="probes.0.p99_ms", cell=ours, beside=theirs, low=low)


MATRIX = Matrix(
    name="call-delay",
    title="Delay that a call induces in others",
    source='"L4S Tests", Between-Flow Induced Delay (its curves are not published as numbers)',
    cells=tuple(
        made
        for rate in RATES
        for made in (
            *(cell(rate, f"call-in-{name}", qdisc, call=True) for name, qdisc in QUEUES.items()),
            cell(rate, "solo", "dualpi2", call=False),
        )
    ),
    columns=(
        Column(head="P50 ms", metric="probes.0.p50_ms"),
        Column(head="P90 ms", metric="probes.0.p90_ms"),
        Column(head="P99 ms", metric="probes.0.p99_ms"),
        Column(head="P99.9 ms", metric="probes.0.p999_ms"),
        Column(head="max ms", metric="probes.0.max_ms"),
        Column(head="probes lost", metric="probes.0.loss", digits=4),
        Column(head="call down Mbit/s", metric="call.0.mbps"),
        Column(head="call up Mbit/s", metric="call.1.mbps"),
    ),
    contrasts=(
        above_fq(5, 1.0),
        above_fq(10),
        above_fq(20),
        *(
            Contrast(
                title=f"{rate} Mbit/s: P99 of the idle path over that with the call in {name}",
                metric="probes.0.p99_ms",
                cell=f"solo-{rate}mbit",
                beside=f"call-in-{queue}-{rate}mbit",
                high=1.0,
            )
            for rate in RATES
            for queue, name in (("L", "L"), ("fq", "fq_codel"))
        ),
    ),
    charts=tuple(
        Chart(
            title=f"{rate} Mbit/s: round trips of the probe above the path's",
            unit="ms",
            series={"": "probes.0.ccdf"},
            cells={
                "call in L (dualpi2)": f"call-in-L-{rate}mbit",
                "call in fq_codel": f"call-in-fq-{rate}mbit",
                "no call": f"solo-{rate}mbit",
            },
            ccdf=True,
        )
        for rate in RATES
    ),
    notes="A call of 2.5 Mbit/s each way, its packets ECT(1), and a probe of ECT(1) each 10 ms; both directions have "
    "the queue. In dualpi2 the probe shares the L queue with the call, in fq_codel it has a queue of its own. Round "
    "trips; a path of 20 ms, which the curves leave out and the columns hold. The call is a WebRTC call between two "
    "browsers, 1280x720, in simulated time too.",
)
test_cell = matrix_tests(MATRIX)
test_targets = matrix_targets(MATRIX)
