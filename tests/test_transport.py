# SPDX-License-Identifier: Apache-2.0
"""The transport check of a lab: an exact shaper, the delay asked for, and shares that the published tables know."""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Column, Expectation, Matrix
from sojourn.traffic.spec import Probe

RATES, RTTS = (5, 10, 20, 50, 100), (0, 20, 80, 160)
# The shaper counts Ethernet frames of 1514 bytes, goodput the 1448 bytes of payload in them.
PAYLOAD_SHARE = 1448 / 1514


def shaper(mbps: int) -> Cell:
    hops = (dumbbell.bottleneck(mbps, "pfifo limit 200"),)
    return Cell(name=f"shaper-{mbps}mbit", flows=dumbbell.flows(["cubic"], 20), hops=hops, seconds=45)


def path(ms: int) -> Cell:
    probes = (Probe(rtt_us=ms * 1000, round_trip=True),)
    return Cell(name=f"path-{ms}ms", probes=probes, hops=(dumbbell.bottleneck(50, "fq_codel"),), seconds=5)


def pair(qdisc: str, *contenders: str) -> Cell:
    hops = (dumbbell.bottleneck(50, qdisc),)
    return Cell(name=f"{'-vs-'.join(contenders)}-{qdisc}", flows=dumbbell.flows(contenders, 20), hops=hops, seconds=60)


def within(cells: str, metric: str, low: float, high: float) -> Expectation:
    return Expectation(cells=f"^{cells}$", metric=metric, low=low, high=high)


MATRIX = Matrix(
    name="transport",
    title="Rate, delay and shares of a lab",
    source="the contrast of Prague and CUBIC: fairness_rfc3168.csv, fairness_rtt.csv",
    cells=(
        *map(shaper, RATES),
        *map(path, RTTS),
        pair("fq_codel flows 1", "prague", "cubic"),
        pair("dualpi2", "prague", "cubic"),
        pair("dualpi2", "prague", "prague"),
    ),
    repeat=1,
    exact="it checks rates and delays against those specified",
    columns=(
        Column(head="first Mbit/s", metric="flows.0.d_ss_mbps", digits=3),
        Column(head="second Mbit/s", metric="flows.1.d_ss_mbps", digits=3),
        Column(head="median round trip ms", metric="probes.0.p50_ms", digits=3),
    ),
    expectations=(
        *(
            within(shaper(mbps).name, "flows.0.d_ss_mbps", 0.99 * PAYLOAD_SHARE * mbps, 1.01 * PAYLOAD_SHARE * mbps)
            for mbps in RATES
        ),
        *(within(path(ms).name, "probes.0.p50_ms", ms - 0.3, ms + 0.3) for ms in RTTS),
        within("prague-vs-cubic-fq_codel flows 1", "flows.0.d_ss_mbps", 40, 48),
        within("prague-vs-cubic-fq_codel flows 1", "flows.1.d_ss_mbps", 0, 5),
        within("prague-vs-cubic-dualpi2", "flows.0.d_ss_mbps", 26, 40),
        within("prague-vs-cubic-dualpi2", "flows.1.d_ss_mbps", 8, 22),
        within("prague-vs-prague-dualpi2", "jain", 0.98, 1),
    ),
)

test_cell = matrix_tests(MATRIX)
