# SPDX-License-Identifier: Apache-2.0
"""Where SCE's ramp begins, against a flow that does not speak it: cake's sce-thresh from 1 to 1024."""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Contrast, Matrix

THRESHOLDS = (1, 2, 4, 8, 16, 20, 32, 128, 1024)
DELAYS = (10, 80)


def name(threshold: int, delay: int) -> str:
    return f"reno-vs-reno-sce-thresh-{threshold}-50mbit-{delay}ms"


def cell(threshold: int, delay: int) -> Cell:
    cake = f"cake bandwidth 50mbit flowblind sce-thresh {threshold}"
    return Cell(
        name=name(threshold, delay),
        flows=dumbbell.flows(("reno", "reno-sce"), delay),
        hops=(dumbbell.bottleneck(dumbbell.LINK_MBPS, cake),),
        seconds=60,
    )


MATRIX = Matrix(
    name="sce-thresh",
    title="Where SCE's ramp begins",
    source="description of the SCE kernel: about 20 balances Reno and Reno-SCE at 50 Mbit/s and 80 ms",
    cells=tuple(cell(*point) for point in product(THRESHOLDS, DELAYS)),
    repeat=1,
    columns=(
        Column(head="Reno Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="Reno-SCE Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="Jain's index", metric="jain", digits=3),
        Column(head="TCP RTT ms", metric="flows.1.rtt_mean_ms", digits=1),
    ),
    charts=tuple(
        Chart(
            title=f"50 Mbit/s, {delay} ms: D_SS",
            unit="Mbit/s",
            series={"reno": "flows.0.d_ss_mbps", "reno-sce": "flows.1.d_ss_mbps"},
            cells={str(threshold): name(threshold, delay) for threshold in THRESHOLDS},
        )
        for delay in DELAYS
    ),
    contrasts=tuple(
        Contrast(
            title=f"Reno-SCE's rate at sce-thresh 1024 over that at 1, {delay} ms",
            metric="flows.1.d_ss_mbps",
            cell=name(1024, delay),
            reference=name(1, delay),
            low=1.5,
        )
        for delay in DELAYS
    ),
)
test_cell = matrix_tests(MATRIX)
