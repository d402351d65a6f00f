# SPDX-License-Identifier: Apache-2.0
"""How much a small change of the RTT decides between Prague and CUBIC in dualpi2, and so what seeds must stand for.

With `--exact` all seeds of a cell have its RTT; without it, each draws a rig (docs/measurement.md).
"""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Expectation, Matrix

RATES = (10, 20, 50)
RTTS = tuple(19 + quarter / 4 for quarter in range(9))


def name(rate: int, rtt: float) -> str:
    return f"{rate}mbit-{rtt:g}ms"


MATRIX = Matrix(
    name="rigs",
    title="Prague and CUBIC in dualpi2 at RTTs from 19 to 21 ms",
    source="ours; `sojourn paper rigs` makes the table in docs/measurement.md from it",
    cells=tuple(
        Cell(
            name=name(rate, rtt),
            flows=dumbbell.flows(("prague", "cubic"), rtt),
            hops=(dumbbell.bottleneck(rate, "dualpi2"),),
            seconds=40,
        )
        for rate in RATES
        for rtt in RTTS
    ),
    repeat=5,
    window_s=30,
    columns=(
        Column(head="Prague Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="CUBIC Mbit/s", metric="flows.1.d_ss_mbps"),
    ),
    expectations=(Expectation(metric="utilisation", low=0.9),),
    charts=(
        Chart(
            title="D_SS by RTT, dualpi2 at 20 Mbit/s",
            unit="Mbit/s",
            series={"Prague": "flows.0.d_ss_mbps", "CUBIC": "flows.1.d_ss_mbps"},
            cells={f"{rtt:g} ms": name(20, rtt) for rtt in RTTS},
        ),
    ),
)
test_cell = matrix_tests(MATRIX)
