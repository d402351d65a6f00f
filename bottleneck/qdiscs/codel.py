# SPDX-License-Identifier: Apache-2.0
"""codel: controlled delay (RFC 8289, tc-codel(8))."""

from __future__ import annotations

from typing import Annotated, ClassVar

from sojourn.bottleneck.parameters import Count, Flag, Time, codel_time
from sojourn.bottleneck.qdiscs.base import Qdisc


class Codel(Qdisc):
    """CoDel on one queue; times in µs."""

    kind: ClassVar[str] = "codel"
    mark_counters: ClassVar[tuple[str, ...]] = (
        "ecn_mark",
        "ce_mark",
    )
    examples: ClassVar[tuple[str, ...]] = (
        "codel",
        "codel limit 500 target 13ms interval 177ms ce_threshold 1500us ecn",
        "codel noecn",
    )

    limit: Annotated[int | None, Count(low=1, unit="PACKETS")] = None
    target: Annotated[int | None, Time(low=1, rounding=codel_time)] = None
    interval: Annotated[int | None, Time(low=1, rounding=codel_time)] = None
    ce_threshold: Annotated[int | None, Time(rounding=codel_time)] = None
    ecn: Annotated[bool | None, Flag(off="noecn")] = None
