# SPDX-License-Identifier: Apache-2.0
"""S11: CUBIC paced to 40 of 50 Mbit/s, as ECT(1) or not, with CUBIC (public harness of "L4S Tests", Scenario 11)."""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Matrix

PACING_BPS = (50_000_000, 40_000_000)
GRID = tuple(product(("cake", "dualpi2"), ("honest", "gamed"), (20, 80)))


def name(qdisc: str, how: str, rtt: int) -> str:
    return f"cubic-vs-cubic-{how}-50-40-{qdisc}-50mbit-{rtt}ms"


def cell(qdisc: str, how: str, rtt: int) -> Cell:
    if qdisc == "cake":
        hop = dumbbell.bottleneck(dumbbell.LINK_MBPS, "cake bandwidth 50mbit")
    else:
        hop = dumbbell.bottleneck(50, dumbbell.QDISCS_2020[qdisc])
    if how == "gamed":
        hop = hop.model_copy(update={"mangle": "to-ect1", "mangled_flows": (1,)})
    cubic = dumbbell.PUBLISHED["cubic"]
    # The source takes the gamed flow's negotiation of ECN away.
    flows = dumbbell.flows([cubic, "cubic-noecn" if how == "gamed" else cubic], rtt, gap_s=10)
    return Cell(
        name=name(qdisc, how, rtt),
        flows=tuple(flow.model_copy(update={"pacing_bps": pace}) for flow, pace in zip(flows, PACING_BPS, strict=True)),
        hops=(hop,),
        seconds=60,
    )


MATRIX = Matrix(
    name="s11",
    title="S11: gaming dualpi2 with ECT(1) for latency",
    source='"L4S Tests", public harness, Scenario 11 (not in the document)',
    cells=tuple(cell(*point) for point in GRID),
    repeat=1,
    window_s=40,
    columns=(
        Column(head="50 Mbit/s: Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="40 Mbit/s: Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="1 : ratio", metric="inverse_ratio", digits=1),
        Column(head="50: RTT ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="40: RTT ms", metric="flows.1.rtt_mean_ms", digits=1),
        Column(head="40: retransmitted", metric="flows.1.retrans_share", digits=5),
    ),
    charts=tuple(
        Chart(
            title=title,
            unit=unit,
            series={"paced to 50": f"flows.0.{metric}", "paced to 40": f"flows.1.{metric}"},
            cells={f"{qdisc} {how} {rtt} ms": name(qdisc, how, rtt) for qdisc, how, rtt in GRID},
        )
        for title, unit, metric in (("D_SS", "Mbit/s", "d_ss_mbps"), ("TCP RTT", "ms", "rtt_mean_ms"))
    ),
    notes="The second flow, 10 s later, sends at most 40 of 50 Mbit/s. Gamed, its packets are made ECT(1) on the way "
    "and it hears of no mark: a queue of its own, or the L queue with the C queue's claim left to it.",
)
test_cell = matrix_tests(MATRIX)
