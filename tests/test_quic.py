# SPDX-License-Identifier: Apache-2.0
"""A QUIC sender alone and against CUBIC and Prague, in queues that mark and one that does not: what it makes of marks.

Without a further option it is Sojourn's own, quinn with CUBIC. With `--swap=program:FILE.toml` it is yours.
"""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Matrix
from sojourn.traffic.spec import Probe

SENDER = "program_quic-cubic"
RATE, RTT, SECONDS = 20, 20, 30
#: Each with the buffer of an access line: 100 ms at this rate, where the queue itself has no target.
QUEUES = ("dualpi2", "fq_codel", "pfifo limit 167")
AGAINST = {"alone": (), "against CUBIC": ("cubic",), "against Prague": ("prague",)}


def name(queue: str, against: str) -> str:
    return f"{queue} {against}"


def cell(queue: str, against: str) -> Cell:
    return Cell(
        name=name(queue, against),
        flows=dumbbell.flows([SENDER, *AGAINST[against]], RTT),
        hops=(dumbbell.bottleneck(RATE, queue),),
        seconds=SECONDS,
        probes=tuple(Probe(rtt_us=RTT * 1000, ecn=ecn, round_trip=True) for ecn in ("not-ect", "ect1")),
    )


CASES = tuple(product(QUEUES, AGAINST))
MATRIX = Matrix(
    name="quic",
    title=f"A QUIC sender at {RATE} Mbit/s, {RTT} ms: alone, against CUBIC and against Prague",
    cells=tuple(cell(*case) for case in CASES),
    window_s=20,
    columns=(
        Column(head="sender Mbit/s", metric="flows.0.window_goodput_mbps"),
        Column(head="contender Mbit/s", metric="flows.1.window_goodput_mbps"),
        Column(head="Not-ECT probe P50 ms", metric="probes.0.p50_ms"),
        Column(head="Not-ECT probe P99 ms", metric="probes.0.p99_ms"),
        Column(head="ECT(1) probe P50 ms", metric="probes.1.p50_ms"),
        Column(head="ECT(1) probe P99 ms", metric="probes.1.p99_ms"),
    ),
    charts=tuple(
        Chart(
            title=f"{name(*case)}: rate, CE and queue per 100 ms",
            unit="Mbit/s",
            series={"sender": "flows.0"} | ({"contender": "flows.1"} if AGAINST[case[1]] else {}),
            cells={"": name(*case)},
            intervals=True,
        )
        for case in CASES
    ),
    notes="Probes have round trips with 20 ms of path. dualpi2 puts ECT(1) packets into its L queue and marks all of "
    "its packets by the same coupled probability; a sender that does not react to CE there fills that queue.",
)
test_cell = matrix_tests(MATRIX)
