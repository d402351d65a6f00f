# SPDX-License-Identifier: Apache-2.0
"""S12: Prague and CUBIC through dualpi2, paced by fq at the sender or by TCP (public harness of "L4S Tests", S12)."""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.impairment import Impairment
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Column, Matrix

HALF_RTT = Impairment(delay_us=10_000)


def cell(queue: str) -> Cell:
    return Cell(
        name=f"prague-vs-cubic-{queue or 'nofq'}-dualpi2-50mbit-20ms",
        flows=dumbbell.flows([dumbbell.PUBLISHED[cc] for cc in ("prague", "cubic")], 0, gap_s=10),
        hops=(dumbbell.bottleneck(50, dumbbell.DUALPI2_2020, path=HALF_RTT),),
        sender_queue=queue,  # type: ignore[arg-type]
        seconds=60,
    )


MATRIX = Matrix(
    name="s12",
    title="S12: pacing by fq",
    source='"L4S Tests", public harness, Scenario 12 (not in the document)',
    cells=(cell("fq"), cell("")),
    window_s=40,
    columns=(
        Column(head="Prague Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="CUBIC Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="ratio : 1", metric="ratio", digits=1),
        Column(head="Prague RTT ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="CUBIC RTT ms", metric="flows.1.rtt_mean_ms", digits=1),
        Column(head="Prague CE share", metric="flows.0.ce_share", digits=4),
    ),
    notes="With fq the senders' qdisc paces, without it TCP's own timer does, and does not pace CUBIC.",
)
test_cell = matrix_tests(MATRIX)
