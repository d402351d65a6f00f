# SPDX-License-Identifier: Apache-2.0
"""One flow through cake at 0.5 to 100 Mbit/s and 0 to 160 ms ("Some Congestion Experienced One and Two-Flow Tests")."""

from __future__ import annotations

from itertools import product

from harness.matrix import dumbbell
from harness.matrix.cases import matrix_tests
from harness.matrix.cell import Cell
from harness.matrix.matrix import Column, Matrix, Reference
from scoring import published

CCS = ("reno", "cubic", "dctcp", "prague")
SCE = ("reno-sce", "dctcp-sce")
RATES = (0.5, 1, 2, 5, 10, 25, 50, 100)
DELAYS = (0, 2, 5, 10, 20, 40, 80, 160)
# The longer lengths in the public harness: the whole flow counts, with the time to fill a long path.
LENGTHS = {(25, 160): 90, (50, 160): 180, (100, 80): 120, (100, 160): 300}


def seconds(rate: float, delay: int) -> float:
    return LENGTHS.get((int(rate), delay), 60 if delay >= 80 or rate * delay >= 2000 else 30)


def name(cc: str, rate: float, delay: int) -> str:
    return f"{cc}-cake-{rate:g}mbit-{delay}ms"


def cell(cc: str, rate: float, delay: int) -> Cell:
    # Cake shapes; the class around it has the rate of the source's links.
    cake = f"cake bandwidth {dumbbell.bps(rate)}bit flowblind{' sce' if cc in SCE else ''}"
    return Cell(
        name=name(cc, rate, delay),
        flows=dumbbell.flows([cc], delay),
        hops=(dumbbell.bottleneck(dumbbell.LINK_MBPS, cake),),
        seconds=seconds(rate, delay),
    )


def figures() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for file, column, metric in (
        ("sce_one_flow_throughput.csv", "mean_tcp_throughput_mbps", "flows.0.goodput_mbps"),
        ("sce_one_flow_rtt.csv", "mean_tcp_rtt_ms", "flows.0.rtt_mean_ms"),
    ):
        for row in published.rows(file):
            key = name(row["cc"], float(row["cake_bandwidth_mbps"]), int(row["netem_delay_ms"]))
            found.setdefault(key, {})[metric] = float(row[column])
    return found


MATRIX = Matrix(
    name="one-flow",
    title="One flow through cake",
    source='"Some Congestion Experienced One and Two-Flow Tests", A.1 and A.2',
    cells=tuple(cell(*point) for point in product((*CCS, *SCE), RATES, DELAYS)),
    repeat=1,
    window_s=28,
    columns=(
        Column(head="mean Mbit/s", metric="flows.0.goodput_mbps"),
        Column(head="TCP RTT ms", metric="flows.0.rtt_mean_ms"),
        Column(head="retransmitted", metric="flows.0.retrans", digits=0),
        Column(head="CE share", metric="flows.0.ce_share", digits=4),
    ),
    reference=Reference(
        csv="sce_one_flow_throughput.csv, sce_one_flow_rtt.csv",
        published=figures(),
        tolerance={"flows.0.goodput_mbps": 0.1, "flows.0.rtt_mean_ms": 0.25},
    ),
    notes="Mean of the whole flow, slow start included. The delay is what netem adds there and back.",
)
test_cell = matrix_tests(MATRIX)
