# SPDX-License-Identifier: Apache-2.0
"""S4: four flows down and four up at once through asymmetric rates, as rrul_be does ("L4S Tests", Scenario 4)."""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Matrix
from sojourn.traffic.spec import Probe

RATES = ((10, 1), (20, 1), (100, 5))
QDISCS = ("fq_codel", "dualpi2", "pfifo")
FLOWS = 4


def name(cc: str, qdisc: str, rates: tuple[int, int], rtt: int) -> str:
    return f"{cc}-{qdisc}-{rates[0]}mbit-{rates[1]}mbit-{rtt}ms"


def queue(qdisc: str, mbps: int) -> str:
    # 20 packets a Mbit/s are 240 ms of full frames, up to the source's 1000.
    return f"pfifo limit {min(20 * mbps, 1000)}" if qdisc == "pfifo" else dumbbell.QDISCS_2020.get(qdisc, qdisc)


def cell(cc: str, qdisc: str, rates: tuple[int, int], rtt: int) -> Cell:
    down, up = rates
    both = dumbbell.flows([dumbbell.PUBLISHED[cc]] * 2 * FLOWS, rtt)
    return Cell(
        name=name(cc, qdisc, rates, rtt),
        flows=tuple(flow.model_copy(update={"up": n >= FLOWS}) for n, flow in enumerate(both)),
        hops=(dumbbell.asymmetric(down, queue(qdisc, down), up, queue(qdisc, up)),),
        seconds=60,
        probes=(
            Probe(rtt_us=rtt * 1000, ecn="ect1" if cc == "prague" else "not-ect", interval_s=0.05, round_trip=True),
        ),
    )


GRID = tuple(product(("cubic", "prague"), QDISCS, RATES, (20, 80)))
MATRIX = Matrix(
    name="s4",
    title="S4: both ways through asymmetric rates",
    source='"L4S Tests", Scenario 4 (conditions of the public harness; the document has no results)',
    cells=tuple(cell(*point) for point in GRID),
    repeat=1,
    window_s=40,
    columns=(
        Column(head="utilisation down", metric="utilisation"),
        Column(head="Jain down", metric="jain", digits=3),
        Column(head="Jain up", metric="up_jain", digits=3),
        Column(head="TCP RTT ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="probe P50 ms", metric="probes.0.p50_ms", digits=1),
        Column(head="probe P99 ms", metric="probes.0.p99_ms", digits=1),
        Column(head="probe loss", metric="probes.0.loss", digits=4),
    ),
    charts=tuple(
        Chart(
            title=f"{down}/{up} Mbit/s, {rtt} ms: queue delay there and back",
            unit="ms",
            series={"": "probes.0.ccdf"},
            cells={f"{qdisc} {cc}": name(cc, qdisc, (down, up), rtt) for qdisc in QDISCS for cc in ("cubic", "prague")},
            ccdf=True,
        )
        for (down, up), rtt in product(RATES, (20, 80))
    ),
    notes="Four bulk flows each way share one congestion control; the probe goes there and back, as rrul_be's do, "
    "50 ms apart. Mbit/s are down/up.",
)
test_cell = matrix_tests(MATRIX)
