# SPDX-License-Identifier: Apache-2.0
"""Ways in which Prague and CUBIC come to share a queue although the qdisc has one for each flow.

"L4S Tests" names them beside single queues: a hash collision, a classification of one's own, and tunnels (s5).
"""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.qdiscs import parse_qdisc
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Contrast, Expectation, Matrix
from sojourn.traffic.ports import FIRST_SENDER

ALONE, FAIR, BY_HOST = "fq_codel flows 1", "fq_codel", "fq_codel, a queue for each host"
PORTS = range(FIRST_SENDER + 1, FIRST_SENDER + 5)
TWO = "fq_codel flows 2"
CAKES = ("cake triple-isolate", "cake dsthost", "cake flowblind")


def cell(name: str, qdisc: str, port: int | None = None, by_host: bool = False) -> Cell:
    if qdisc.startswith("cake"):
        hop = dumbbell.bottleneck(dumbbell.LINK_MBPS, str(parse_qdisc(f"{qdisc} bandwidth 50mbit")))
    else:
        hop = dumbbell.bottleneck(50, qdisc)
    prague, cubic = dumbbell.flows([dumbbell.PUBLISHED[cc] for cc in ("prague", "cubic")], 20)
    return Cell(
        name=name,
        flows=(prague, cubic.model_copy(update={"from_port": port})),
        hops=(hop.model_copy(update={"host_queue": by_host}),),
        seconds=60,
    )


def collision(port: int) -> str:
    return f"{TWO}, CUBIC from port {port}"


CELLS = (
    cell(ALONE, ALONE),
    cell(FAIR, FAIR),
    cell(BY_HOST, FAIR, by_host=True),
    *(cell(collision(port), TWO, port) for port in PORTS),
    *(cell(qdisc, qdisc) for qdisc in CAKES),
)
MATRIX = Matrix(
    name="shared",
    title="Ways into a shared queue",
    source='"L4S Tests", unsafety in shared RFC 3168 queues: hash collisions and custom classification',
    cells=CELLS,
    repeat=1,
    window_s=40,
    columns=(
        Column(head="Prague Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="CUBIC Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="ratio : 1", metric="ratio", digits=1),
        Column(head="queues in use", metric="active_queues", digits=1),
        Column(head="CUBIC RTT ms", metric="flows.1.rtt_mean_ms", digits=1),
    ),
    expectations=(
        Expectation(metric="ratio", low=8, cells="flows 1$|each host|dsthost|flowblind"),
        Expectation(metric="ratio", low=0.8, high=1.25, cells="^fq_codel$|triple-isolate"),
        Expectation(metric="active_queues", low=1, high=1, cells="each host"),
    ),
    contrasts=tuple(
        Contrast(title=f"{one.name}: ratio over that of one queue", metric="ratio", cell=one.name, reference=ALONE)
        for one in CELLS[1:]
    ),
    charts=(
        Chart(
            title="D_SS",
            unit="Mbit/s",
            series={"prague": "flows.0.d_ss_mbps", "cubic": "flows.1.d_ss_mbps"},
            cells={one.name: one.name for one in CELLS},
        ),
    ),
    notes="With two queues a port in two collides with Prague's; which does is the seed's choice, and the queues in "
    "use tell it. CAKE looks for a free queue among eight before two flows share one; dsthost and flowblind make them.",
)
test_cell = matrix_tests(MATRIX)
