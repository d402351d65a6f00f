# SPDX-License-Identifier: Apache-2.0
"""S7: one flow through fq_codel, for what it is marked and how it answers (public harness of "L4S Tests", S7)."""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Column, Expectation, Matrix

GRID = tuple(product(("cubic", "reno", "prague"), (20, 80)))


def cell(cc: str, rtt: int) -> Cell:
    return Cell(
        name=f"{cc}-fq_codel-50mbit-{rtt}ms",
        flows=dumbbell.flows([dumbbell.PUBLISHED.get(cc, cc)], rtt),
        hops=(dumbbell.bottleneck(50, "fq_codel"),),
        seconds=60,
    )


MATRIX = Matrix(
    name="s7",
    title="S7: one flow through fq_codel",
    source='"L4S Tests", public harness, Scenario 7 (not in the document)',
    cells=tuple(cell(*point) for point in GRID),
    repeat=1,
    window_s=40,
    columns=(
        Column(head="Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="utilisation", metric="utilisation"),
        Column(head="TCP RTT ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="largest TCP RTT ms", metric="flows.0.rtt_max_ms", digits=0),
        Column(head="CE share", metric="flows.0.ce_share", digits=5),
        Column(head="retransmitted", metric="flows.0.retrans_share", digits=5),
    ),
    expectations=(Expectation(metric="flows.0.ce_share", low=1e-6),),
    notes="The source counts ECN's statistics in these runs; it publishes none of them.",
)
test_cell = matrix_tests(MATRIX)
