# SPDX-License-Identifier: Apache-2.0
"""The cells of these tests."""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Direction, Hop
from sojourn.traffic.spec import Flow

SHAPED = Direction(rate_bps=50_000_000, qdisc="dualpi2")


def cell(*rtts_us: int, **more: object) -> Cell:
    flows = tuple(Flow(contender="cubic", rtt_us=rtt) for rtt in rtts_us)
    return Cell.model_validate({"name": "x", "flows": flows, "hops": [Hop(down=SHAPED)], "seconds": 60} | more)
