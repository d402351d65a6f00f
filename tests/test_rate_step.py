# SPDX-License-Identifier: Apache-2.0
"""S2: one flow when the rate steps down from 50 Mbit/s after 30 s ("L4S Tests", Scenario 2)."""

from __future__ import annotations

from harness.matrix import dumbbell
from harness.matrix.cases import matrix_tests
from harness.matrix.cell import Cell
from harness.matrix.matrix import Chart, Column, Matrix, Reference
from scoring import published

ROWS = published.rows("rate_step_matrix.csv")


def name(row: dict[str, str]) -> str:
    return f"{row['burstiness']}-{row['cc']}-{row['qdisc']}-50mbit-{row['rate_after_step_mbps']}mbit-{row['rtt_ms']}ms"


def cell(row: dict[str, str]) -> Cell:
    path = dumbbell.bursts(16) if row["burstiness"] == "bursty" else None
    hop = dumbbell.bottleneck(
        float(row["rate_initial_mbps"]), row["qdisc"], path=path, steps=[(30, float(row["rate_after_step_mbps"]))]
    )
    return Cell(name=name(row), flows=dumbbell.flows([row["cc"]], float(row["rtt_ms"])), hops=(hop,), seconds=60)


def chart(burstiness: str, rtt: str) -> Chart:
    rows = [row for row in ROWS if (row["burstiness"], row["rtt_ms"]) == (burstiness, rtt)]
    return Chart(
        title=f"{burstiness}, {rtt} ms: largest TCP RTT after the step",
        unit="ms",
        series={"above the path's": "periods.1.height_ms"},
        cells={f"{row['qdisc']} {row['cc']} {row['rate_after_step_mbps']}": name(row) for row in rows},
    )


MATRIX = Matrix(
    name="s2",
    title="S2: rate step",
    source='"L4S Tests", Scenario 2',
    cells=tuple(cell(row) for row in ROWS),
    repeat=1,
    window_s=20,
    columns=(
        Column(head="largest TCP RTT ms", metric="flows.0.rtt_max_ms", digits=0),
        Column(head="spike above path ms", metric="periods.1.height_ms", digits=0),
        Column(head="spike s", metric="periods.1.spike_s", digits=1),
        Column(head="over at the end", metric="periods.1.spike_over", digits=0),
        Column(head="utilisation before", metric="periods.0.utilisation"),
        Column(head="utilisation after", metric="periods.1.utilisation"),
    ),
    reference=Reference(
        csv="rate_step_matrix.csv",
        published={
            "clean-prague-fq_codel-50mbit-1mbit-80ms": {"flows.0.rtt_max_ms": 4346, "periods.1.spike_s": 30},
            "clean-prague-fq_codel-50mbit-25mbit-80ms": {"periods.1.height_ms": 100, "periods.1.spike_s": 5},
        },
        tolerance={},
    ),
    charts=tuple(chart(burstiness, rtt) for burstiness in ("clean", "bursty") for rtt in ("20", "80")),
    notes="The source's spike of 30 s means longer than could be seen: the cell ends 30 s after the step, and so does "
    "ours where it is not over (0). A spike is over when the TCP RTT stays for 1 s at the path's RTT + 25 ms + four "
    "full frames at the new rate, or below.",
)
test_cell = matrix_tests(MATRIX)
