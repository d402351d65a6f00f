# SPDX-License-Identifier: Apache-2.0
"""How much `min_qlen_step` of dualpi2 decides between Prague and CUBIC, by rate.

Below 12 Mbit/s, a single packet lasts longer than the default step threshold of 1 ms. Mainline's `min_qlen_step 0` then
marks every packet of the L queue that waits for one of the C queue.
"""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Expectation, Matrix

RATES = (5, 10, 20, 30)
GUARDS = (0, 1, 2)


def name(rate: int, guard: int) -> str:
    return f"{rate}mbit-min-qlen-{guard}"


MATRIX = Matrix(
    name="step-guard",
    title="Prague and CUBIC in dualpi2, by the packets that its step requires",
    source="ours; `sojourn paper step-guard` makes the table in docs/experiments.md from it",
    cells=tuple(
        Cell(
            name=name(rate, guard),
            flows=dumbbell.flows(("prague", "cubic"), 20),
            hops=(dumbbell.bottleneck(rate, f"dualpi2 min_qlen_step {guard}" if guard else "dualpi2"),),
            seconds=40,
        )
        for rate in RATES
        for guard in GUARDS
    ),
    repeat=6,
    window_s=30,
    columns=(
        Column(head="Prague Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="CUBIC Mbit/s", metric="flows.1.d_ss_mbps"),
    ),
    expectations=(Expectation(metric="utilisation", low=0.85),),
    charts=(
        Chart(
            title="D_SS at 10 Mbit/s, by min_qlen_step",
            unit="Mbit/s",
            series={"Prague": "flows.0.d_ss_mbps", "CUBIC": "flows.1.d_ss_mbps"},
            cells={str(guard): name(10, guard) for guard in GUARDS},
        ),
    ),
)
test_cell = matrix_tests(MATRIX)
