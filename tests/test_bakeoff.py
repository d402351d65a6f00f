# SPDX-License-Identifier: Apache-2.0
"""The six chains of middleboxes of "sce-l4s-bakeoff", its L4S and its SCE side, one flow and two, 10 s apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.dumbbell import LINK_MBPS, bottleneck
from sojourn.harness.matrix.matrix import Chart, Column, Expectation, Matrix, Reference
from sojourn.scoring.reference import published
from sojourn.traffic.spec import Probe

# pfifo_fast with all packets in one band is a FIFO of the device's 1000 packets.
FIFO = "pfifo limit 1000"
CHAINS: dict[int, tuple[Hop, ...]] = {
    1: (bottleneck(50, "dualpi2"),),
    2: (bottleneck(50, "fq_codel"), bottleneck(LINK_MBPS, "dualpi2")),
    3: (bottleneck(50, "fq_codel flows 1"), bottleneck(LINK_MBPS, "dualpi2")),
    4: (Hop(mangle="to-ect1"), bottleneck(50, "dualpi2")),
    5: (bottleneck(100, "dualpi2"), bottleneck(50, FIFO), bottleneck(47.5, "fq_codel")),
    6: (bottleneck(52.5, FIFO), bottleneck(50, "fq_codel")),
}
# The class around cake has the rate of the source's links.
SHAPING_SCE = bottleneck(LINK_MBPS, "cake bandwidth 50mbit besteffort flows sce")
SCE_CHAINS: dict[int, tuple[Hop, ...]] = {
    1: (bottleneck(LINK_MBPS, "cake bandwidth 50mbit besteffort flowblind sce"),),
    2: (bottleneck(50, "fq_codel"), bottleneck(LINK_MBPS, "cake besteffort flows sce")),
    3: (bottleneck(50, "fq_codel flows 1"), bottleneck(LINK_MBPS, "cake besteffort flows sce")),
    4: (Hop(mangle="to-ect1"), SHAPING_SCE),
    5: (
        bottleneck(LINK_MBPS, "cake bandwidth 100mbit besteffort flows sce"),
        bottleneck(50, FIFO),
        bottleneck(47.5, "fq_codel"),
    ),
    6: (bottleneck(52.5, FIFO), bottleneck(50, "fq_codel")),
}
SIDES = {"l4s": CHAINS, "sce": SCE_CHAINS}
# net.ipv4.tcp_pacing_ss_ratio and …_ca_ratio of the SCE side's sender.
SCE_PACING = (100, 40)
RTTS = (0, 10, 80)
ONE = (("cubic",), ("dctcp",), ("prague",))
TWO = (("cubic", "cubic"), ("cubic", "prague"), ("prague", "prague"))
SCE_ONE = (("cubic",), ("dctcp-sce",), ("reno-sce",))
SCE_TWO = (("cubic", "cubic"), ("cubic", "reno-sce"), ("reno-sce", "reno-sce"))
# Only in chain 4: its mangler makes ECT(1) of a "gamed" flow's packets, and of every packet where there is one flow.
GAMED = (("cubic", "cubic"), ("cubic", "cubic_gamed"), ("prague", "cubic"), ("prague", "cubic_gamed"))
SCE_GAMED = (("cubic", "cubic_gamed"), ("cubic", "reno-sce_gamed"), ("reno-sce", "reno-sce_gamed"))
FLOWS = {"l4s": (ONE, TWO, GAMED), "sce": (SCE_ONE, SCE_TWO, SCE_GAMED)}


def name(side: str, scenario: int, ccs: tuple[str, ...], rtt: int) -> str:
    return f"{side}-s{scenario}-{len(ccs)}-{'-vs-'.join(ccs)}-50mbit-{rtt}ms"


def cell(side: str, scenario: int, ccs: tuple[str, ...], rtt: int) -> Cell:
    hops = SIDES[side][scenario]
    if scenario == 4 and len(ccs) == 2:
        gamed = tuple(n for n, cc in enumerate(ccs) if cc.endswith("_gamed"))
        hops = (Hop(mangle="to-ect1", mangled_flows=gamed) if gamed else Hop(), *hops[1:])
    return Cell(
        name=name(side, scenario, ccs, rtt),
        flows=dumbbell.flows([cc.removesuffix("_gamed") for cc in ccs], rtt, gap_s=10),
        hops=hops,
        seconds=60,
        probes=(Probe(rtt_us=rtt * 1000), Probe(rtt_us=rtt * 1000, ecn="ect1")),
        pacing_percent=SCE_PACING if side == "sce" else None,
        tso_2020=True,
    )


STATED = "bakeoff_observations.csv"
_RATIO, _RATE = "mean_throughput_ratio", "median_throughput"


def stated() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Cell, metric and row of what the text says of two flows at one RTT."""
    for row in published.rows(STATED):
        side, quantity, rtt = row["side"], row["quantity"], row["netem_rtt_ms"]
        if side not in SIDES or row["flows"] != "2" or not rtt or quantity not in ("convergence_time", _RATIO, _RATE):
            continue
        pairs = FLOWS[side][1]
        if quantity == _RATE:  # of one flow of the mixed pair
            pair = next(pair for pair in pairs if len(set(pair)) == 2)
            metric = f"flows.{pair.index(row['subject'])}.d_ss_mbps"
        else:
            pair = next(pair for pair in pairs if set(pair) == set(re.split(" vs | over ", row["subject"])))
            metric = "inverse_ratio" if quantity == _RATIO else "convergence_s"
        yield name(side, int(row["scenario"]), pair, int(rtt)), metric, row


def points() -> dict[str, dict[str, float]]:
    """The figures that are points; ranges and bounds are none."""
    figures: dict[str, dict[str, float]] = {}
    for where, metric, row in stated():
        if row["value_low"] == row["value_high"]:
            figures.setdefault(where, {})[metric] = float(row["value_low"])
    return figures


POINTS = [
    (side, scenario, ccs, rtt)
    for side, (one, two, gamed) in FLOWS.items()
    for scenario in CHAINS
    for ccs, rtt in product((*one, *(gamed if scenario == 4 else two)), RTTS)
]
MATRIX = Matrix(
    name="bakeoff",
    title="The bakeoff's scenarios 1 to 6",
    source='"sce-l4s-bakeoff", Scenarios and Results',
    cells=tuple(cell(*point) for point in POINTS),
    repeat=1,
    window_s=48,
    columns=(
        Column(head="flow 1 Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="flow 2 Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="ratio 2 : 1", metric="inverse_ratio"),
        Column(head="used", metric="utilisation"),
        Column(head="convergence s", metric="convergence_s", digits=1),
        Column(head="TCP RTT 1 ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="TCP RTT 2 ms", metric="flows.1.rtt_mean_ms", digits=1),
        Column(head="C probe P99 ms", metric="probes.0.p99_ms", digits=1),
        Column(head="L probe P99 ms", metric="probes.1.p99_ms", digits=1),
    ),
    expectations=tuple(
        Expectation(metric=metric, high=float(row["value_high"]), cells=f"^{re.escape(where)}$")
        for where, metric, row in stated()
        if row["qualifier"] == "less_than"
    ),
    reference=Reference(
        csv=STATED,
        published=points(),
        tolerance={},
    ),
    charts=tuple(
        Chart(
            title=f"{side.upper()}, scenario {scenario}, two flows: steady rates",
            unit="Mbit/s",
            series={"flow 1": "flows.0.d_ss_mbps", "flow 2": "flows.1.d_ss_mbps"},
            cells={
                f"{' : '.join(ccs)} {rtt} ms": name(side, scenario, ccs, rtt)
                for ccs, rtt in product(gamed if scenario == 4 else two, RTTS)
            },
        )
        for side, (_, two, gamed) in FLOWS.items()
        for scenario in CHAINS
    ),
    notes="Rates: mean of the 48 s after the second flow's start that end 2 s before the end (one flow: the same "
    "seconds), as the senders estimate delivery: of one that bursts and pauses, as SCE's do at 0 ms, that is more than "
    "it gets, and more than `used`, the share of the rate that their goodputs make. Convergence: seconds from the "
    "second flow's start until the goodputs of the next 5 s have a Jain's index of 0.95, ∞ where they never have. "
    "Theirs is told in words: published are its points, and what it says to be under 1 s must be. Its ranges stand "
    "only here: two Pragues at 80 ms in scenario 1 30 to 40 s, two Reno-SCEs at 10 ms 1 to 2 s, two Pragues at 80 ms "
    "in scenario 3 more than 50 s, as long as both run, and Prague with CUBIC of no RTT about 40 s "
    "(docs/experiments.md has ours). One probe is Not-ECT, one ECT(1). Packets of several segments are made as in 2020 "
    "(tso_2020).",
)
test_cell = matrix_tests(MATRIX)
