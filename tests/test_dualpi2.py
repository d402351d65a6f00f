# SPDX-License-Identifier: Apache-2.0
"""dualpi2 swept: equal RTTs, mixed RTTs and overload, CUBIC in C beside Prague in L, with the queues' delays."""

from __future__ import annotations

from harness.matrix import dumbbell
from harness.matrix.cases import matrix_tests
from harness.matrix.cell import Cell, Probe
from harness.matrix.matrix import Chart, Column, Matrix

RATES, RTTS = (4, 12, 40, 120, 200), (5, 10, 20, 50, 100)
MIXED = ((10, 20), (20, 10), (10, 50), (50, 10), (10, 100), (100, 10))
# Flows of each kind: at 12 Mbit/s and 10 ms, 10 packets are on the way, and every flow keeps two in flight.
CROWDS = (1, 2, 5, 10, 20)


def cell(name: str, rate: int, cubic_ms: int, prague_ms: int, each: int = 1) -> Cell:
    return Cell(
        name=name,
        flows=dumbbell.flows(["cubic"] * each + ["prague"] * each, [cubic_ms] * each + [prague_ms] * each),
        hops=(dumbbell.bottleneck(rate, "dualpi2"),),
        seconds=60,
        probes=(Probe(rtt_us=cubic_ms * 1000), Probe(rtt_us=prague_ms * 1000, ecn="ect1")),
    )


EQUAL = {(rate, rtt): f"equal-{rate}mbit-{rtt}ms" for rate in RATES for rtt in RTTS}
MIX = {pair: f"mixed-40mbit-cubic-{pair[0]}ms-prague-{pair[1]}ms" for pair in MIXED}
OVERLOAD = {each: f"overload-12mbit-10ms-{each}-of-each" for each in CROWDS}


def delays(title: str, cells: dict[str, str]) -> Chart:
    return Chart(title=title, unit="ms", series={"C": "probes.0.ccdf", "L": "probes.1.ccdf"}, cells=cells, ccdf=True)


MATRIX = Matrix(
    name="dualpi2",
    title="dualpi2: equal RTTs, mixed RTTs, overload",
    source='"Comparing dualpi2 versions", families A to C (its curves are not published as numbers)',
    cells=(
        *(cell(name, rate, rtt, rtt) for (rate, rtt), name in EQUAL.items()),
        *(cell(name, 40, *pair) for pair, name in MIX.items()),
        *(cell(name, 12, 10, 10, each) for each, name in OVERLOAD.items()),
    ),
    repeat=1,
    window_s=50,
    columns=(
        Column(head="CUBIC Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="Prague Mbit/s", metric="last.d_ss_mbps"),
        Column(head="utilisation", metric="utilisation", digits=3),
        Column(head="Jain's index", metric="jain", digits=3),
        Column(head="C P50 ms", metric="probes.0.p50_ms"),
        Column(head="C P99 ms", metric="probes.0.p99_ms"),
        Column(head="L P50 ms", metric="probes.1.p50_ms"),
        Column(head="L P99 ms", metric="probes.1.p99_ms"),
        Column(head="L loss", metric="probes.1.loss", digits=4),
    ),
    charts=(
        *(delays(f"{rate} Mbit/s, 10 ms: queue delay", {"": EQUAL[rate, 10]}) for rate in RATES),
        delays("40 Mbit/s, mixed RTTs: queue delay", {f"{a}/{b} ms": MIX[a, b] for a, b in MIXED[:2]}),
        delays("12 Mbit/s, 10 ms, overload: queue delay", {f"{n} of each": OVERLOAD[n] for n in (1, 5, 20)}),
        Chart(
            title="Equal RTTs: rate of CUBIC and Prague over their fair share",
            unit="of fair",
            series={"cubic": "flows.0.normalised", "prague": "last.normalised"},
            cells={f"{rate}, {rtt} ms": name for (rate, rtt), name in EQUAL.items()},
        ),
    ),
    notes="Overload is by number of flows: with two packets in flight each they exceed the path. Columns show the "
    "first CUBIC and the last Prague flow. Delays are those of the probes: P50 and P99 with the path's, the curves "
    "without it. Normalised: rate over capacity / number of flows.",
)
test_cell = matrix_tests(MATRIX)
