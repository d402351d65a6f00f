# SPDX-License-Identifier: Apache-2.0
"""SCReAM v2 alone and against Prague in dualpi2, as Ericsson's test record has it (100 Mbit/s, 5 to 100 ms).

The record is of a version of October 2024, `scream2` is draft-johansson-ccwg-rfc8298bis-screamv2-07 (March 2026).
"""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Expectation, Matrix, Reference
from sojourn.scoring.reference import published
from sojourn.traffic.program import PROGRAMS
from sojourn.traffic.spec import Probe

ROWS = {int(row["rtt_ms"]): row for row in published.rows("scream_test_record.csv")}
PRAGUES = range(5)
RATE = 100
# SCReAM is alone for as long.
ALONE_S = 10


def name(rtt_ms: int, pragues: int) -> str:
    return f"{rtt_ms}ms-" + (f"{pragues}-prague" if pragues else "alone")


def cell(rtt_ms: int, pragues: int) -> Cell:
    video, *rivals = dumbbell.flows(["scream2", *["prague"] * pragues], rtt_ms)
    return Cell(
        name=name(rtt_ms, pragues),
        flows=(video, *(flow.model_copy(update={"start_s": ALONE_S}) for flow in rivals)),
        hops=(dumbbell.bottleneck(RATE, "dualpi2"),),
        seconds=40,
        per_packet=True,
        probes=(Probe(rtt_us=rtt_ms * 1000, ecn="ect1"),),
        needs=PROGRAMS["scream2"].missing_tools(),
    )


def theirs(rtt_ms: int, pragues: int) -> float:
    return float(ROWS[rtt_ms][f"prague{pragues}_mbps" if pragues else "alone_mbps"])


POINTS = tuple(product(ROWS, PRAGUES))
MBPS = "flows.0.d_ss_mbps"
MATRIX = Matrix(
    name="scream2",
    title="SCReAM v2 alone and against Prague, 100 Mbit/s, dualpi2",
    source="test-record.md of github.com/EricssonResearch/scream, 2024-10-31, test 2",
    cells=tuple(cell(*point) for point in POINTS),
    repeat=1,
    window_s=20,
    columns=(
        Column(head="SCReAM Mbit/s", metric=MBPS, digits=1),
        Column(head="Prague 1 Mbit/s", metric="flows.1.d_ss_mbps", digits=1),
        Column(head="utilisation", metric="utilisation", digits=3),
        Column(head="SCReAM P95 ms", metric="packets.flows.0.p95_owd_ms", digits=1),
        Column(head="L P99 ms", metric="probes.0.p99_ms", digits=1),
    ),
    reference=Reference(
        csv="scream_test_record.csv",
        published={name(*point): {MBPS: theirs(*point)} for point in POINTS},
        tolerance={MBPS: 0.1},
    ),
    # What is on its way at the end counts as lost.
    expectations=(Expectation(metric="packets.flows.0.loss", high=0.003),),
    charts=tuple(
        Chart(
            title=f"{rtt_ms} ms: SCReAM with Prague flows",
            unit="Mbit/s",
            series={"SCReAM": MBPS, "first Prague": "flows.1.d_ss_mbps"},
            cells={str(pragues): name(rtt_ms, pragues) for pragues in PRAGUES},
        )
        for rtt_ms in ROWS
    ),
    notes="The Prague flows start 10 s after SCReAM, all at once. Published are 20 s after the start of a flow, by "
    "SCReAM's own count.",
)
test_cell = matrix_tests(MATRIX)
