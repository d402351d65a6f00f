# SPDX-License-Identifier: Apache-2.0
"""Three senders of a call alone, then with CUBIC, Prague and BBRv3 in turn, in four queues at three rates.

bbr3 is not in the default kernel: `sojourn matrix l4s-media --kernel-source=hardware/kernel/bbr3`. The same for a video
by SCReAM's draft is the matrix `l4s-media-draft`.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from sojourn.harness.matrix import dumbbell, media
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Expectation, Matrix
from sojourn.traffic.spec import Call

#: A call of 720p has at most 2.5 Mbit/s.
CALLS: dict[str, dict[str, Any]] = {"gcc": {}, "gcc-ect1": {"ecn": "ect1"}, "scream": {"cc": "scream"}}


def call(sender: str) -> Call:
    return Call(rtt_us=media.RTT_US, bitrate_bps=dumbbell.bps(2.5), **CALLS[sender])


MATRIX = Matrix(
    name="l4s-media",
    title="Calls by GCC and SCReAM with CUBIC, Prague and BBRv3",
    source="ours; docs/l4s-media.md",
    cells=tuple(media.cell(*point, call=call(point[0])) for point in product(CALLS, media.QUEUES, media.RATES)),
    repeat=1,
    window_s=media.WITH_S - 5,
    tail_s=0,
    columns=tuple(media.columns()),
    expectations=(Expectation(metric="media.0.mbps", low=1.5),),
    charts=tuple(media.charts(CALLS)),
    notes=media.NOTES,
)
test_cell = matrix_tests(MATRIX)
