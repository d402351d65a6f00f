# SPDX-License-Identifier: Apache-2.0
"""deltic: a FIFO with Delay Time Control ("The Tao of DelTiC", Morton, 2024; hardware/kernel/sch_deltic.c)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from sojourn.bottleneck.parameters import Count, Flag, Time
from sojourn.bottleneck.qdiscs.base import Qdisc

_MOST_US = 4_000_000


class Deltic(Qdisc):
    """Three control laws: one marks CE, one marks SCE if enabled, one drops. Targets in µs."""

    kind: ClassVar[str] = "deltic"
    mark_counters: ClassVar[tuple[str, ...]] = ("ecn_mark",)
    marks_unasked: ClassVar[bool] = True
    examples: ClassVar[tuple[str, ...]] = (
        "deltic",
        "deltic target 20ms sce-target 4ms drop-target 100ms limit 500 sce",
        "deltic no-sce",
    )

    target: Annotated[int | None, Time(low=1, high=_MOST_US)] = None
    sce_target: Annotated[int | None, Time(word="sce-target", low=1, high=_MOST_US)] = None
    drop_target: Annotated[int | None, Time(word="drop-target", low=1, high=_MOST_US)] = None
    limit: Annotated[int | None, Count(low=1, unit="PACKETS")] = None
    sce: Annotated[bool | None, Flag(off="no-sce")] = None
