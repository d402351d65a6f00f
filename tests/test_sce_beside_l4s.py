# SPDX-License-Identifier: Apache-2.0
"""SCE beside L4S: how soon two flows share alike, what delay they make, and what a CUBIC loses to them."""

from __future__ import annotations

from itertools import product

from harness.matrix import dumbbell
from harness.matrix.cases import matrix_tests
from harness.matrix.cell import Cell, Hop, Probe
from harness.matrix.matrix import Chart, Column, Contrast, Matrix

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


def beside_cubic(title: str, queue: str, contender: str, rtt: int) -> Contrast:
    """CUBIC's rate beside a contender over its rate beside another CUBIC in the same queue (Ware et al., 2019)."""
    return Contrast(
        title=f"{title}, {rtt} ms",
        metric="flows.0.d_ss_mbps",
        cell=name(queue, ("cubic", contender), rtt),
        beside=name(queue, ("cubic", "cubic"), rtt),
    )


MATRIX = Matrix(
    name="sce-l4s",
    title="SCE beside L4S",
    source='the comparison of "sce-l4s-bakeoff", each side through its own queue, and both through RFC 3168\'s',
    cells=tuple(cell(queue, pair, rtt) for queue, pairs in PAIRS.items() for pair, rtt in product(pairs, RTTS)),
    repeat=1,
    window_s=48,
    columns=(
        Column(head="flow 1 Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="flow 2 Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="convergence s", metric="convergence_s", digits=1),
        Column(head="TCP RTT 1 ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="TCP RTT 2 ms", metric="flows.1.rtt_mean_ms", digits=1),
        Column(head="Not-ECT probe P99 ms", metric="probes.0.p99_ms", digits=1),
        Column(head="ECT(1) probe P99 ms", metric="probes.1.p99_ms", digits=1),
    ),
    contrasts=tuple(
        contrast
        for rtt in RTTS
        for contrast in (
            beside_cubic("CUBIC beside Prague in dualpi2 over beside CUBIC", "dualpi2", "prague", rtt),
            beside_cubic("CUBIC beside Reno-SCE in cake sce", "cake-sce", "reno-sce", rtt),
            beside_cubic("CUBIC beside DCTCP-SCE in cake sce", "cake-sce", "dctcp-sce", rtt),
            beside_cubic("CUBIC beside Reno-SCE in sce-single", "cake-sce-single", "reno-sce", rtt),
            beside_cubic("CUBIC beside DCTCP-SCE in sce-single", "cake-sce-single", "dctcp-sce", rtt),
            beside_cubic("CUBIC beside Prague in fq_codel flows 1", "fq_codel-1q", "prague", rtt),
            beside_cubic("CUBIC beside Reno-SCE in fq_codel flows 1", "fq_codel-1q", "reno-sce", rtt),
            beside_cubic("CUBIC beside DCTCP-SCE in fq_codel flows 1", "fq_codel-1q", "dctcp-sce", rtt),
            beside_cubic("CUBIC beside Prague in lfq_cobalt", "lfq_cobalt", "prague", rtt),
            beside_cubic("CUBIC beside Reno-SCE in lfq_cobalt", "lfq_cobalt", "reno-sce", rtt),
            beside_cubic("CUBIC beside Prague in twin_codel_af", "twin_codel_af", "prague", rtt),
            beside_cubic("CUBIC beside Reno-SCE in twin_codel_af", "twin_codel_af", "reno-sce", rtt),
            beside_cubic("CUBIC beside DCTCP-SCE in twin_codel_af", "twin_codel_af", "dctcp-sce", rtt),
            beside_cubic("CUBIC beside Reno-SCE in deltic", "deltic", "reno-sce", rtt),
        )
    ),
    charts=tuple(
        Chart(
            title=f"{rtt} ms: {what}",
            unit=unit,
            series=series,
            cells={f"{queue} {' : '.join(pair)}": name(queue, pair, rtt) for queue in PAIRS for pair in PAIRS[queue]},
        )
        for rtt in RTTS
        for what, unit, series in (
            ("steady rates", "Mbit/s", {"flow 1": "flows.0.d_ss_mbps", "flow 2": "flows.1.d_ss_mbps"}),
            ("mean TCP RTT", "ms", {"flow 1": "flows.0.rtt_mean_ms", "flow 2": "flows.1.rtt_mean_ms"}),
        )
    ),
    notes="The second flow starts after 10 s. Alike after: seconds from then until the goodputs of the next 5 s have a "
    "Jain's index of 0.95; none where they never have. Harm to a video: sojourn harm --contenders=prague,dctcp-sce",
)
test_cell = matrix_tests(MATRIX)
