# SPDX-License-Identifier: Apache-2.0
"""cnq_cobalt: cheap nasty queueing with CoDel and BLUE (hardware/kernel/sch_cnq.c)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from sojourn.bottleneck.parameters import Choice, Count, Rate, Time
from sojourn.bottleneck.qdiscs.base import Qdisc
from sojourn.bottleneck.sce import Ramp


class CnqCobalt(Qdisc):
    """CNQ with one CoDel; bandwidth in bit/s, times in µs."""

    kind: ClassVar[str] = "cnq_cobalt"
    mark_counters: ClassVar[tuple[str, ...]] = ("ecn_mark",)
    marks_unasked: ClassVar[bool] = True
    examples: ClassVar[tuple[str, ...]] = (
        "cnq_cobalt",
        "cnq_cobalt bandwidth 9mbit target 7ms interval 70ms limit 500 sce",
        "cnq_cobalt unlimited sce-thresh 16",
    )

    bandwidth: Annotated[int | None, Rate(low=8, high=8 * (2**63 - 1))] = None
    unlimited: Annotated[str | None, Choice(key="bandwidth", choices={"unlimited": "unlimited"})] = None
    target: Annotated[int | None, Time(low=1)] = None
    interval: Annotated[int | None, Time(low=1)] = None
    limit: Annotated[int | None, Count(low=1, unit="PACKETS")] = None
    sce: Annotated[int | None, Ramp()] = None

    @property
    def shapes_bps(self) -> int | None:
        return self.bandwidth

    def validate_together(self) -> None:
        if self.bandwidth is not None and self.unlimited is not None:
            raise ValueError("bandwidth and unlimited are mutually exclusive; give one")
