# SPDX-License-Identifier: Apache-2.0
"""S3: one flow while both directions go 100, 50, 10, 90, 5 Mbit/s at 25, 30, 35, 50 s ("L4S Tests", Scenario 3)."""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Matrix
from sojourn.scoring.reference import published

STEPS = [(25.0, 50.0), (30.0, 10.0), (35.0, 90.0), (50.0, 5.0)]
ROWS = published.rows("variable_rate_matrix.csv")


def name(row: dict[str, str]) -> str:
    return f"{row['burstiness']}-{row['cc']}-{row['qdisc']}-100mbit-{row['rtt_ms']}ms"


def cell(row: dict[str, str]) -> Cell:
    qdisc = dumbbell.QDISCS_2020.get(row["qdisc"], row["qdisc"])
    if (qdisc, row["cc"]) == ("fq_codel", "cubic"):
        qdisc = "fq_codel noecn"
    return dumbbell.rate_change(name(row), row, qdisc, STEPS, burst_packets=32)


MATRIX = Matrix(
    name="s3",
    title="S3: variable rate",
    source='"L4S Tests", Scenario 3',
    cells=tuple(cell(row) for row in ROWS),
    repeat=1,
    window_s=40,
    columns=(
        Column(head="largest TCP RTT ms", metric="flows.0.rtt_max_ms", digits=0),
        *(
            Column(head=f"utilisation at {rate:g} Mbit/s", metric=f"periods.{n}.utilisation")
            for n, rate in enumerate([100, 50, 10, 90, 5])
        ),
        *(
            Column(head=f"spike s at {rate} Mbit/s", metric=f"periods.{n}.spike_s", digits=1)
            for n, rate in ((1, 50), (2, 10), (4, 5))
        ),
    ),
    charts=(
        Chart(
            title="Largest TCP RTT",
            unit="ms",
            series={"TCP RTT": "flows.0.rtt_max_ms"},
            cells={f"{row['burstiness']} {row['qdisc']} {row['cc']} {row['rtt_ms']} ms": name(row) for row in ROWS},
        ),
    ),
    notes="As in the public harness, flows begin 5 s in and last 60 s, both directions change, and fq_codel has ECN on "
    "for Prague and off for CUBIC.",
)
test_cell = matrix_tests(MATRIX)
