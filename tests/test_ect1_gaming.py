# SPDX-License-Identifier: Apache-2.0
"""S10: CUBIC marked as ECT(1) on its way to dualpi2, against Prague or CUBIC (public harness of "L4S Tests", S10)."""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Expectation, Matrix

PACING_BPS = 50_000_000
GRID = tuple(product(("prague", "cubic"), ("ecn", "noecn"), (20, 80)))


def name(honest: str, ecn: str, rtt: int) -> str:
    return f"{honest}-vs-cubic-{ecn}-gamed-dualpi2-50mbit-{rtt}ms"


def cell(honest: str, ecn: str, rtt: int) -> Cell:
    pair = [dumbbell.PUBLISHED.get(honest, honest), dumbbell.PUBLISHED["cubic"] if ecn == "ecn" else "cubic-noecn"]
    flows = dumbbell.flows(pair, rtt, gap_s=10)
    hop = dumbbell.bottleneck(50, dumbbell.DUALPI2_2020).model_copy(update={"mangle": "to-ect1", "mangled_flows": (1,)})
    return Cell(
        name=name(honest, ecn, rtt),
        flows=tuple(flow.model_copy(update={"pacing_bps": PACING_BPS}) for flow in flows),
        hops=(hop,),
        seconds=60,
    )


MATRIX = Matrix(
    name="s10",
    title="S10: gaming dualpi2 with ECT(1)",
    source='"L4S Tests", public harness, Scenario 10 (not in the document)',
    cells=tuple(cell(*point) for point in GRID),
    repeat=1,
    window_s=40,
    columns=(
        Column(head="honest Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="gamed Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="1 : ratio", metric="inverse_ratio", digits=1),
        Column(head="honest RTT ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="gamed RTT ms", metric="flows.1.rtt_mean_ms", digits=1),
        Column(head="gamed retransmitted", metric="flows.1.retrans_share", digits=5),
    ),
    expectations=(
        Expectation(metric="inverse_ratio", high=1, cells="-ecn-gamed"),
        Expectation(metric="inverse_ratio", low=5, cells="-noecn-gamed"),
    ),
    charts=(
        Chart(
            title="D_SS, CUBIC as ECT(1) 10 s later",
            unit="Mbit/s",
            series={"honest": "flows.0.d_ss_mbps", "gamed": "flows.1.d_ss_mbps"},
            cells={f"{honest} {ecn} {rtt} ms": name(honest, ecn, rtt) for honest, ecn, rtt in GRID},
        ),
    ),
    notes="The middlebox makes ECT(1) of the second flow's packets: ecn, of one that negotiated ECN and hears "
    "the marks; noecn, of one that did not, and hears of losses only. Both are paced to 50 Mbit/s at most.",
)
test_cell = matrix_tests(MATRIX)
