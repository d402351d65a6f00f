# SPDX-License-Identifier: Apache-2.0
"""Prudentia's setting (SIGCOMM 2024) with its bulk flows: 8 and 50 Mbit/s, 50 ms, a drop-tail queue of about 4 BDP.

Prudentia measures live services in pairs, and iPerf's CUBIC, BBR and NewReno (Linux 5.15) as a baseline. Its grid of
pairs is a picture. Of two bulk flows, its authors state one figure in text: NewReno gets 60 % of its max-min fair share
with CUBIC at 8 Mbit/s (A. A. Philip, "Prudentia: Are Your Favorite Online Services Playing Fair?", Carnegie Mellon
University's PhD blog, August 2025).
"""

from __future__ import annotations

from itertools import combinations_with_replacement, product

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Matrix, Reference

#: CUBIC with NewReno by today's TCP too, which builds packets of several segments in another way than Linux 5.15.
TODAY = "today"
#: Packets of the queue by rate, Mbit/s: 4 BDP are 133 and 833, and Prudentia's switch takes the nearest power of two.
QUEUES = {8: 128, 50: 1024}
RTT_MS = 50
PAIRS = tuple(combinations_with_replacement(("cubic", "bbr", "reno"), 2))


def name(pair: tuple[str, str], rate: int) -> str:
    return f"{pair[0]}-vs-{pair[1]}-{rate}mbit"


def cell(pair: tuple[str, str], rate: int, version: str = "") -> Cell:
    hop = dumbbell.bottleneck(rate, f"pfifo limit {QUEUES[rate]}")
    return Cell(
        name=f"{name(pair, rate)}{version and f'-{version}'}", flows=dumbbell.flows(pair, RTT_MS), hops=(hop,),
        seconds=600, tso_2020=not version,
    )  # fmt: skip


MATRIX = Matrix(
    name="prudentia",
    title="Prudentia's setting: shares of two bulk flows in a drop-tail queue of 4 BDP",
    source='"Prudentia: Findings of an Internet Fairness Watchdog" (SIGCOMM 2024), 3',
    cells=(
        *(cell(pair, rate) for rate, pair in product(QUEUES, PAIRS)),
        *(cell(("cubic", "reno"), rate, TODAY) for rate in QUEUES),
    ),
    window_s=360,
    tail_s=120,
    columns=(
        Column(head="share of flow 1", metric="flows.0.normalised"),
        Column(head="share of flow 2", metric="flows.1.normalised"),
        Column(head="used", metric="utilisation"),
        Column(head="TCP RTT 1 ms", metric="flows.0.rtt_mean_ms", digits=0),
        Column(head="TCP RTT 2 ms", metric="flows.1.rtt_mean_ms", digits=0),
        Column(head="resent 1", metric="flows.0.retrans_share", digits=4),
        Column(head="resent 2", metric="flows.1.retrans_share", digits=4),
    ),
    reference=Reference(
        csv="a table of the authors' blog (tests/test_prudentia.py)",
        published={name(("cubic", "reno"), 8): {"flows.1.normalised": 0.60}},
        tolerance={},
    ),
    charts=tuple(
        Chart(
            title=f"{rate} Mbit/s: share of the max-min fair share",
            unit="",
            series={"flow 1": "flows.0.normalised", "flow 2": "flows.1.normalised"},
            cells={" : ".join(pair): name(pair, rate) for pair in PAIRS},
        )
        for rate in QUEUES
    ),
    notes="Shares are goodput in the window over an equal share of the bottleneck, which is the max-min fair share of "
    "two bulk flows. As with Prudentia, the first and the last 2 of 10 minutes do not count, and TCP builds packets of "
    "several segments as Linux 5.15 does, but for the cells `today`. Both flows begin together. The authors state one "
    "of these figures in text, NewReno's share with CUBIC at 8 Mbit/s; all others are in a picture.",
)
test_cell = matrix_tests(MATRIX)
