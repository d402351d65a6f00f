# SPDX-License-Identifier: Apache-2.0
"""SCE and L4S: how soon two flows share alike, what delay they make, and what a CUBIC loses to them."""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Difference, Matrix
from sojourn.traffic.spec import Probe

# Each side's own queue, one of neither (a flow where nobody knows of it), and those that the bakeoff does not have.
QUEUES: dict[str, Hop] = {
    "dualpi2": dumbbell.bottleneck(50, "dualpi2"),
    "cake-sce": dumbbell.bottleneck(dumbbell.LINK_MBPS, "cake bandwidth 50mbit besteffort flowblind sce"),
    "cake-sce-single": dumbbell.bottleneck(dumbbell.LINK_MBPS, "cake bandwidth 50mbit besteffort flowblind sce-single"),
    "fq_codel-1q": dumbbell.bottleneck(50, "fq_codel flows 1"),
    "lfq_cobalt": dumbbell.bottleneck(dumbbell.LINK_MBPS, "lfq_cobalt bandwidth 50mbit sce-thresh 4"),
    # The second flow asks for low delay, so that each has a pair of queues.
    "twin_codel_af": dumbbell.bottleneck(dumbbell.LINK_MBPS, "twin_codel_af bandwidth 50mbit").model_copy(
        update={"mangle": "to-dscp-4", "mangled_flows": (1,)}
    ),
    "deltic": dumbbell.bottleneck(50, "deltic sce"),
}
PAIRS = {
    "dualpi2": (("prague", "prague"), ("cubic", "prague"), ("cubic", "cubic")),
    "cake-sce": (
        ("reno-sce", "reno-sce"), ("dctcp-sce", "dctcp-sce"), ("cubic", "reno-sce"), ("cubic", "dctcp-sce"),
        ("cubic", "cubic"),
    ),
    "cake-sce-single": (("reno-sce", "reno-sce"), ("cubic", "reno-sce"), ("cubic", "dctcp-sce"), ("cubic", "cubic")),
    "fq_codel-1q": (("cubic", "prague"), ("cubic", "reno-sce"), ("cubic", "dctcp-sce"), ("cubic", "cubic")),
    "lfq_cobalt": (("cubic", "prague"), ("cubic", "reno-sce"), ("cubic", "cubic")),
    "twin_codel_af": (("cubic", "prague"), ("cubic", "reno-sce"), ("cubic", "dctcp-sce"), ("cubic", "cubic")),
    "deltic": (("cubic", "reno-sce"), ("cubic", "cubic")),
}  # fmt: skip
RTTS = (10, 80)


def name(queue: str, pair: tuple[str, str], rtt: int) -> str:
    return f"{queue}-{pair[0]}-vs-{pair[1]}-{rtt}ms"


def cell(queue: str, pair: tuple[str, str], rtt: int) -> Cell:
    return Cell(
        name=name(queue, pair, rtt),
        flows=dumbbell.flows(pair, rtt, gap_s=10),
        hops=(QUEUES[queue],),
        seconds=60,
        probes=(Probe(rtt_us=rtt * 1000), Probe(rtt_us=rtt * 1000, ecn="ect1")),
    )


LOSES = "cubic_loses_mbps"


def what_cubic_loses(queue: str, contender: str, rtt: int) -> Difference:
    """CUBIC's rate with another CUBIC less that with a contender, in the same queue (after Ware et al., 2019)."""
    beside, rate = name(queue, ("cubic", contender), rtt), "flows.0.d_ss_mbps"
    return Difference(cell=beside, metric=LOSES, of=rate, more=name(queue, ("cubic", "cubic"), rtt), less=beside)


MATRIX = Matrix(
    name="sce-l4s",
    title="SCE and L4S",
    source='the comparison of "sce-l4s-bakeoff", each side through its own queue, and both through RFC 3168\'s',
    cells=tuple(cell(queue, pair, rtt) for queue, pairs in PAIRS.items() for pair, rtt in product(pairs, RTTS)),
    repeat=1,
    window_s=48,
    columns=(
        Column(head="flow 1 Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="flow 2 Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="CUBIC loses Mbit/s", metric=LOSES),
        Column(head="convergence s", metric="convergence_s", digits=1),
        Column(head="TCP RTT 1 ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="TCP RTT 2 ms", metric="flows.1.rtt_mean_ms", digits=1),
        Column(head="Not-ECT probe P99 ms", metric="probes.0.p99_ms", digits=1),
        Column(head="ECT(1) probe P99 ms", metric="probes.1.p99_ms", digits=1),
    ),
    differences=tuple(
        what_cubic_loses(queue, pair[1], rtt)
        for queue, pairs in PAIRS.items()
        for pair, rtt in product(pairs, RTTS)
        if pair[0] == "cubic" != pair[1]
    ),
    charts=tuple(
        Chart(
            title=f"{rtt} ms: {what}",
            unit=unit,
            series=series,
            cells={
                f"{queue} {' : '.join(pair)}": name(queue, pair, rtt)
                for queue in PAIRS
                for pair in PAIRS[queue]
                if LOSES not in series.values() or pair[0] == "cubic" != pair[1]
            },
        )
        for what, unit, series in (
            ("steady rates", "Mbit/s", {"flow 1": "flows.0.d_ss_mbps", "flow 2": "flows.1.d_ss_mbps"}),
            ("mean TCP RTT", "ms", {"flow 1": "flows.0.rtt_mean_ms", "flow 2": "flows.1.rtt_mean_ms"}),
            ("what CUBIC loses to it", "Mbit/s", {"CUBIC": LOSES}),
        )
        for rtt in RTTS
    ),
    notes="The second flow starts after 10 s. Convergence: seconds from then until the goodputs of the next 5 s have a "
    "Jain's index of 0.95, ∞ where they never have; a pair that crosses on its way to unlike shares has had them. What "
    "CUBIC loses: its rate with another CUBIC in the same queue, less its rate here; below 0 it wins. fq_codel-1q "
    "knows no SCE: both SCE senders answer its CE alike. Harm to a video, each through its side's queue: "
    "sojourn harm --contenders=prague --qdisc=dualpi2, and sojourn harm --contenders=dctcp-sce "
    "--qdisc='cake bandwidth 10mbit besteffort flowblind sce' (docs/experiments.md has both).",
)
test_cell = matrix_tests(MATRIX)
