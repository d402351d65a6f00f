# SPDX-License-Identifier: Apache-2.0
"""S2: one flow when the rate of both directions steps down from 50 Mbit/s at 30 s ("L4S Tests", Scenario 2)."""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Contrast, Matrix, Reference
from sojourn.scoring.reference import published

ROWS = published.rows("rate_step_matrix.csv")


def name(row: dict[str, str]) -> str:
    return f"{row['burstiness']}-{row['cc']}-{row['qdisc']}-50mbit-{row['rate_after_step_mbps']}mbit-{row['rtt_ms']}ms"


def cell(row: dict[str, str]) -> Cell:
    qdisc = dumbbell.QDISCS_2020.get(row["qdisc"], row["qdisc"])
    return dumbbell.rate_change(name(row), row, qdisc, [(30, float(row["rate_after_step_mbps"]))], burst_packets=16)


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
        Column(head="probe's largest RTT ms", metric="probes.0.max_ms", digits=0),
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
    contrasts=(
        Contrast(
            title="bursts, 25 Mbit/s, 20 ms: utilisation of Prague in dualpi2 over that of CUBIC in fq_codel "
            "(published: about 0.5)",
            metric="periods.1.utilisation",
            cell="bursty-prague-dualpi2-50mbit-25mbit-20ms",
            reference="bursty-cubic-fq_codel-50mbit-25mbit-20ms",
        ),
    ),
    charts=tuple(chart(burstiness, rtt) for burstiness in ("clean", "bursty") for rtt in ("20", "80")),
    notes="As in the public harness flows begin 5 s in and last 60 s, and both directions step. The source's spike of "
    "30 s is a lower bound; ours is what could be seen, 35 s, where it is not over (0). A spike is over when the TCP "
    "RTT stays for 1 s at the path's RTT + 25 ms + four full frames at the new rate, or below. A period counts from "
    "the flow's start on.",
)
test_cell = matrix_tests(MATRIX)
