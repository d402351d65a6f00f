# SPDX-License-Identifier: Apache-2.0
"""Prague of 2020 with CUBIC in a full pfifo, 10 Mbit/s: as the hosts send, and with arrivals bunched at random.

A part of why S1's pfifo cells have too little of Prague. Where each arrival follows a departure, a full queue loses
what a growing window adds, not a share of all: traffic phase effects (Floyd and Jacobson, 1991). Here nothing but the
flows moves a packet in time; a machine in real time does. Bunched for longer than a packet lasts, 1.2 ms, Prague has
more, and at 10 and 20 ms the published share or above.
"""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.impairment import Impairment
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Expectation, Matrix, Reference

RTTS_MS = (10, 20, 80)
PUBLISHED = {10: (2.48, 6.97), 20: (2.96, 6.48), 80: (1.79, 7.64)}
"""D_SS of Prague and CUBIC, Mbit/s, by RTT, ms: S1's table, Prague first (scoring/reference/fairness_rtt.csv)."""
PATHS = {"as-sent": Impairment(), "bunched": Impairment(delay_us=10, slot_us=1000, slot_max_us=4000)}


def name(path: str, rtt_ms: int) -> str:
    return f"{path}-{rtt_ms}ms"


def cell(path: str, rtt_ms: int) -> Cell:
    hop = dumbbell.bottleneck(10, "pfifo limit 200")
    assert hop.down
    hop = hop.model_copy(update={"down": hop.down.model_copy(update={"path": PATHS[path]})})
    contenders = [dumbbell.PUBLISHED[control] for control in ("prague", "cubic")]
    flows = dumbbell.flows(contenders, rtt_ms)
    return Cell(name=name(path, rtt_ms), flows=flows, hops=(hop,), seconds=180, tso_2020=True)


MATRIX = Matrix(
    name="tail-drop-phase",
    title="Prague with CUBIC in a pfifo, arrivals as sent and bunched",
    source='"L4S Tests", Scenario 1 Fairness Table; Floyd and Jacobson, 1991',
    cells=tuple(cell(path, rtt) for path in PATHS for rtt in RTTS_MS),
    window_s=60,
    exact="it shows what a phase that locks does",
    tail_s=1,
    columns=(
        Column(head="Prague Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="CUBIC Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="Prague resent", metric="flows.0.retrans_share", digits=5),
        Column(head="CUBIC resent", metric="flows.1.retrans_share", digits=5),
    ),
    expectations=tuple(
        Expectation(metric="flows.0.d_ss_mbps", low=low, high=high, cells=f"^{name(path, rtt)}$")
        for path, rtt, low, high in (
            ("as-sent", 10, 1.6, 2.75),
            ("as-sent", 80, 0.7, 1.65),
            ("bunched", 10, 2.5, 4.0),
            ("bunched", 20, 2.4, 4.0),
            ("bunched", 80, 1.65, 2.6),
        )
    ),
    reference=Reference(
        csv="fairness_rtt.csv",
        published={
            name(path, rtt): {"flows.0.d_ss_mbps": prague, "flows.1.d_ss_mbps": cubic}
            for path in PATHS
            for rtt, (prague, cubic) in PUBLISHED.items()
        },
        tolerance={"flows.0.d_ss_mbps": 0.25},
    ),
    charts=tuple(
        Chart(
            title=f"Arrivals {path}: D_SS",
            unit="Mbit/s",
            series={"prague": "flows.0.d_ss_mbps", "cubic": "flows.1.d_ss_mbps"},
            cells={f"{rtt} ms": name(path, rtt) for rtt in RTTS_MS},
        )
        for path in PATHS
    ),
    notes="Bunched: netem on the router's ingress lets what has come out each 1 to 4 ms, at random. S1 itself stays as "
    "the hosts send: nothing is known of its machine's own bunching.",
)
test_cell = matrix_tests(MATRIX)
