# SPDX-License-Identifier: Apache-2.0
"""S13: CUBIC or Reno in an RFC 3168 queue, and 10 s later Prague (public harness of "L4S Tests", Scenario 13)."""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Expectation, Matrix

FIRST = ("cubic-ecn", "cubic-noecn", "reno-ecn", "reno-noecn")
GRID = tuple(product(FIRST, (20, 80)))


def name(first: str, rtt: int) -> str:
    return f"{first}-vs-prague-fq_codel(1q)-50mbit-{rtt}ms"


def cell(first: str, rtt: int) -> Cell:
    cc, _, ecn = first.partition("-")
    hop = dumbbell.bottleneck(50, "fq_codel flows 1")
    return Cell(
        name=name(first, rtt),
        flows=dumbbell.flows([dumbbell.PUBLISHED[name] for name in (cc, "prague")], rtt, gap_s=10),
        hops=(dumbbell.bleached(hop, 0) if ecn == "noecn" else hop,),
        seconds=60,
    )


MATRIX = Matrix(
    name="s13",
    title="S13: Prague second in an RFC 3168 queue",
    source='"L4S Tests", public harness, Scenario 13 (not in the document)',
    cells=tuple(cell(*point) for point in GRID),
    repeat=1,
    window_s=40,
    columns=(
        Column(head="first Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="Prague Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="1 : ratio", metric="inverse_ratio", digits=1),
        Column(head="first RTT ms", metric="flows.0.rtt_mean_ms", digits=1),
    ),
    expectations=(Expectation(metric="inverse_ratio", low=4),),
    charts=(
        Chart(
            title="D_SS, Prague 10 s later",
            unit="Mbit/s",
            series={"first": "flows.0.d_ss_mbps", "prague": "flows.1.d_ss_mbps"},
            cells={f"{first} {rtt} ms": name(first, rtt) for first, rtt in GRID},
        ),
    ),
    notes="The order of s8 turned round: whether what a classic flow loses depends on who was there first. noecn: the "
    "middlebox clears its ECN field. Contenders are the source's (dumbbell.PUBLISHED).",
)
test_cell = matrix_tests(MATRIX)
