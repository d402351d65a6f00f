# SPDX-License-Identifier: Apache-2.0
"""S8: Prague in an RFC 3168 queue, and 10 s later CUBIC or Reno (public harness of "L4S Tests", Scenario 8)."""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Expectation, Matrix

QDISCS = {
    "fq_codel(1q)": "fq_codel flows 1",
    "pie": "pie ecn",
    "red(400000b)": "red limit 400000 avpkt 1000 adaptive bandwidth 50mbit ecn",
}
LATER = ("cubic-ecn", "cubic-noecn", "reno-ecn", "reno-noecn")
GRID = tuple(product(LATER, QDISCS, (20, 80)))


def name(later: str, qdisc: str, rtt: int) -> str:
    return f"prague-vs-{later}-{qdisc}-50mbit-{rtt}ms"


def cell(later: str, qdisc: str, rtt: int) -> Cell:
    cc, _, ecn = later.partition("-")
    hop = dumbbell.bottleneck(50, QDISCS[qdisc])
    return Cell(
        name=name(later, qdisc, rtt),
        flows=dumbbell.flows([dumbbell.PUBLISHED[name] for name in ("prague", cc)], rtt, gap_s=10),
        hops=(dumbbell.bleached(hop, 1) if ecn == "noecn" else hop,),
        seconds=60,
    )


MATRIX = Matrix(
    name="s8",
    title="S8: Prague first in RFC 3168 queues",
    source='"L4S Tests", public harness, Scenario 8 (not in the document)',
    cells=tuple(cell(*point) for point in GRID),
    repeat=1,
    window_s=40,
    columns=(
        Column(head="Prague Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="other flow Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="ratio : 1", metric="ratio", digits=1),
        Column(head="convergence s", metric="convergence_s", digits=1),
        Column(head="Prague RTT ms", metric="flows.0.rtt_mean_ms", digits=1),
    ),
    expectations=(Expectation(metric="ratio", low=2.5),),
    charts=tuple(
        Chart(
            title=f"{rtt} ms: D_SS, the second flow 10 s later",
            unit="Mbit/s",
            series={"prague": "flows.0.d_ss_mbps", "other flow": "flows.1.d_ss_mbps"},
            cells={f"{later} {qdisc}": name(later, qdisc, rtt) for later, qdisc in product(LATER, QDISCS)},
        )
        for rtt in (20, 80)
    ),
    notes="S6 with the classic flow 10 s later, and 80 ms besides; s13 has the other order. noecn: the "
    "middlebox clears its ECN field. Contenders are the source's (dumbbell.PUBLISHED).",
)
test_cell = matrix_tests(MATRIX)
