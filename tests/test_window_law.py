# SPDX-License-Identifier: Apache-2.0
"""The window that each congestion control keeps at a fixed probability of marks or losses, alone and without a queue.

What a flow gets with another in a queue is this law at the marking that both bring about. Where a published share is
not ours, this tells whether the control or the marking differs.
"""

from __future__ import annotations

from math import exp, sqrt

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.impairment import Impairment
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Expectation, Matrix
from sojourn.harness.report.contender_names import display_name

PERCENTS = (1, 2, 5, 10, 20)
CLASSIC = ("reno-accecn", "reno-noecn", "cubic-accecn", "cubic-noecn")
PRAGUES = ("prague", "prague-2020")
RTT_MS = 20


def reno(p: float) -> float:
    """Window of Reno in segments where each packet is marked with probability `p`: sqrt(3 / 2p), Mathis et al. 1997."""
    return sqrt(1.5 / p)


def prague(p: float, ratio: float = 1) -> float:
    """Window of Prague in segments at `p`, as hardware/kernel/README.md derives it.

    `ratio` is RTT over virtual RTT, at least 1/2; 1 without RTT independence.
    """
    marks = 1.0  # in a round trip; the map below contracts
    for _ in range(100):
        cwrs = 2 - exp(-(1 / ratio - 1) * marks)
        marks = sqrt(2 * (1 - p) * ratio**2 * (marks + 1) * cwrs)
    return marks / p


def name(contender: str, percent: float) -> str:
    return f"{contender}-{percent:g}%"


def cell(contender: str, percent: float) -> Cell:
    hop = dumbbell.bottleneck(dumbbell.LINK_MBPS, "pfifo limit 1000")
    assert hop.down
    down = hop.down.model_copy(update={"path": Impairment(loss_percent=percent, marks=True)})
    return Cell(
        name=name(contender, percent),
        flows=dumbbell.flows([contender], RTT_MS),
        hops=(hop.model_copy(update={"down": down}),),
        seconds=60,
    )


def law(contenders: tuple[str, ...], percent: float, segments: float, low: float, high: float) -> Expectation:
    """The window of these contenders lies between `low` and `high` times the law's."""
    names = "|".join(contenders)
    return Expectation(
        metric="flows.0.cwnd_mean", low=low * segments, high=high * segments, cells=f"^({names})-{percent:g}%$"
    )


MATRIX = Matrix(
    name="window-law",
    title="Windows at a fixed marking probability",
    source="Mathis et al., 1997 (Reno); hardware/kernel/README.md (Prague)",
    cells=tuple(cell(contender, percent) for contender in CLASSIC + PRAGUES for percent in PERCENTS),
    repeat=1,
    columns=(
        Column(head="window, segments", metric="flows.0.cwnd_mean"),
        Column(head="goodput Mbit/s", metric="flows.0.window_goodput_mbps"),
        Column(head="TCP RTT ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="CE share", metric="flows.0.ce_share", digits=4),
        Column(head="resent", metric="flows.0.retrans_share", digits=4),
    ),
    expectations=(
        *(law(("reno-accecn", "reno-noecn"), percent, reno(percent / 100), 0.7, 1.3) for percent in PERCENTS),
        *(law(("prague-2020",), percent, prague(percent / 100), 0.8, 1.2) for percent in PERCENTS),
        *(
            law(("prague",), percent, prague(percent / 100, RTT_MS / 25) + 0.5, 0.8, 1.2)  # + 0.5: rounded up
            for percent in PERCENTS
        ),
    ),
    charts=tuple(
        Chart(
            title=f"{display_name(contender)}: window",
            unit="segments",
            series={contender: "flows.0.cwnd_mean"},
            cells={f"{percent:g} %": name(contender, percent) for percent in PERCENTS},
        )
        for contender in CLASSIC + PRAGUES
    ),
    notes="Each data packet is marked (AccECN) or lost (noecn) at random with the probability told, by netem on the "
    "router's ingress. Reno and CUBIC never go below two segments.",
)
test_cell = matrix_tests(MATRIX)
