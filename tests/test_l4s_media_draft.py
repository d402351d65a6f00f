# SPDX-License-Identifier: Apache-2.0
"""A video by SCReAM v2 as its draft has it, in the cells of the matrix `l4s-media`, which has calls between browsers.

bbr3 is not in the default kernel: `sojourn matrix l4s-media-draft --kernel-source=hardware/kernel/bbr3`.
"""

from __future__ import annotations

from itertools import product

from sojourn.harness.matrix import media
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Column, Expectation, Matrix
from sojourn.traffic.program import PROGRAMS
from sojourn.traffic.spec import Flow

#: With the limit of the call.
PROGRAM = "scream2-call"
VIDEO = Flow(contender=PROGRAM, rtt_us=media.RTT_US)
PARTS = {"media Mbit/s": "mbps", "queue P99 ms": "queue_p99_ms", "contender Mbit/s": "contender_mbps"}
MATRIX = Matrix(
    name="l4s-media-draft",
    title="A video by SCReAM v2 with CUBIC, Prague and BBRv3",
    source="ours; docs/l4s-media.md",
    cells=tuple(
        media.cell(
            PROGRAM,
            *point,
            flows=(VIDEO, *media.contenders()),
            per_packet=True,
            needs=PROGRAMS[PROGRAM].missing_tools(),
        )
        for point in product(media.QUEUES, media.RATES)
    ),
    repeat=1,
    window_s=media.WITH_S - 5,
    tail_s=0,
    columns=tuple(
        Column(head=f"{who}: {head}", metric=f"media.{n}.{metric}")
        for head, metric in PARTS.items()
        for n, who in enumerate(media.PHASES)
        if n or metric != "contender_mbps"
    ),
    expectations=(Expectation(metric="media.0.mbps", low=1.5),),
    charts=tuple(media.charts([PROGRAM])),
    notes=media.NOTES,
)
test_cell = matrix_tests(MATRIX)
