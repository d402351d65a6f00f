# SPDX-License-Identifier: Apache-2.0
"""Every congestion control of the kernel as Pantheon shows them: three flows, 10 s apart, 30 s."""

from __future__ import annotations

from itertools import product

from harness.matrix import dumbbell
from harness.matrix.cases import matrix_tests
from harness.matrix.cell import Cell, Probe
from harness.matrix.matrix import Chart, Column, Matrix, Reference
from scoring import published
from traffic.contender import CONTENDERS

PUBLISHED = {"TCP Cubic": "cubic", "TCP BBR": "bbr", "TCP Vegas": "vegas"}
CCS = [name for name in CONTENDERS if not name.endswith("-noecn")]
# 600 ms of full frames: what BBR's published delay says of the cellular path's buffer.
QDISCS = {"pfifo(600)": "pfifo limit 600", "fq_codel": "fq_codel", "dualpi2": "dualpi2"}
RATE, RTT = 12, 46


def name(cc: str, qdisc: str) -> str:
    return f"{cc}-{qdisc}-{RATE}mbit-{RTT}ms"


def cell(cc: str, qdisc: str) -> Cell:
    return Cell(
        name=name(cc, qdisc),
        flows=dumbbell.flows([cc] * 3, RTT, gap_s=10),
        hops=(dumbbell.bottleneck(RATE, QDISCS[qdisc]),),
        seconds=30,
        probes=(Probe(rtt_us=RTT * 1000, ecn="ect1" if cc.startswith("prague") else "not-ect"),),
    )


def theirs() -> dict[str, dict[str, float]]:
    found = {}
    for row in published.rows("pantheon_schemes.csv"):
        if row["scheme"] in PUBLISHED:
            found[name(PUBLISHED[row["scheme"]], "pfifo(600)")] = {
                metric: float(row[f"flow{n + 1}_mean_{column}"])
                for n in range(3)
                for metric, column in (
                    (f"flows.{n}.goodput_mbps", "avg_throughput_mbps"),
                    (f"probes.0.while_flow.{n}.p95_ms", "p95_owd_ms"),
                )
            }
    return found


MATRIX = Matrix(
    name="pantheon",
    title="Three flows of one congestion control, as Pantheon shows them",
    source='"Pantheon Report" (AWS India 1 to India cellular, 2019-01-02)',
    cells=tuple(cell(*point) for point in product(CCS, QDISCS)),
    window_s=10,
    columns=(
        *(Column(head=f"flow {n + 1} Mbit/s", metric=f"flows.{n}.goodput_mbps") for n in range(3)),
        *(Column(head=f"flow {n + 1} P95 ms", metric=f"probes.0.while_flow.{n}.p95_ms", digits=1) for n in range(3)),
        *(Column(head=f"flow {n + 1} retransmitted", metric=f"flows.{n}.retrans_share", digits=4) for n in range(3)),
    ),
    reference=Reference(csv="pantheon_schemes.csv", published=theirs(), tolerance={}),
    charts=tuple(
        Chart(
            title=f"{qdisc}: queue delay",
            unit="ms",
            series={"": "probes.0.ccdf"},
            cells={cc: name(cc, qdisc) for cc in CCS},
            ccdf=True,
        )
        for qdisc in QDISCS
    ),
    notes="A fixed 12 Mbit/s path with 46 ms stands in for the source's cellular one, which varies: only the order of "
    "schemes compares. P95 is the one-way delay of probes every 10 ms while the flow runs; in fq_codel the probe has "
    "a queue of its own. Loss is told as the share of packets sent again.",
)
test_cell = matrix_tests(MATRIX)
