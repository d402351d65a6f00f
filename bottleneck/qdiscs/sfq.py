# SPDX-License-Identifier: Apache-2.0
"""sfq: stochastic fairness queueing, optionally with RED on every flow (McKenney 1990, tc-sfq(8))."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from sojourn.bottleneck import red_math
from sojourn.bottleneck.parameters import Count, Flag, Fraction, Size
from sojourn.bottleneck.qdiscs.base import Qdisc

_RED = ("min", "max", "avpkt", "burst", "probability", "ecn", "harddrop")


class Sfq(Qdisc):
    """Stochastic fairness queueing; perturb in s, quantum, redflowlimit, min, max and avpkt in bytes."""

    kind: ClassVar[str] = "sfq"
    filtered: ClassVar[bool] = True
    mark_counters: ClassVar[tuple[str, ...]] = (
        "prob_mark",
        "prob_mark_head",
        "forced_mark",
        "forced_mark_head",
    )
    examples: ClassVar[tuple[str, ...]] = (
        "sfq",
        "sfq limit 100 perturb 10 quantum 3000 divisor 512 flows 64 depth 32 headdrop",
        "sfq limit 120 redflowlimit 100000 min 8000 max 60000 avpkt 1000 burst 30 probability 0.1 ecn harddrop",
        "sfq redflowlimit 100000",
    )

    limit: Annotated[int | None, Count(low=2, unit="PACKETS")] = None
    perturb: Annotated[int | None, Count(high=2**31 - 1, unit="SECONDS")] = None
    quantum: Annotated[int | None, Size(low=1, high=2**31 - 1)] = None
    divisor: Annotated[int | None, Count(low=1, high=65536)] = None
    flows: Annotated[int | None, Count(low=1, high=65408)] = None
    depth: Annotated[int | None, Count(low=1, high=127, unit="PACKETS")] = None
    headdrop: Annotated[bool | None, Flag()] = None
    redflowlimit: Annotated[int | None, Count(low=1, unit="BYTES", shown=False)] = None
    min: Annotated[int | None, Count(low=1, unit="BYTES")] = None
    max: Annotated[int | None, Count(low=1, unit="BYTES")] = None
    avpkt: Annotated[int | None, Size(low=1, shown=False)] = None
    burst: Annotated[int | None, Count(low=1, unit="PACKETS", shown=False)] = None
    probability: Annotated[float | None, Fraction(high=1, step=2**-32)] = None
    ecn: Annotated[bool | None, Flag()] = None
    harddrop: Annotated[bool | None, Flag()] = None

    @classmethod
    def counters(cls, statistics: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        return (statistics.get("options", {}),)

    def validate_together(self) -> None:
        if self.divisor is not None and self.divisor & (self.divisor - 1):
            raise ValueError(f"divisor {self.divisor} is not a power of two")
        if self.redflowlimit is None:
            if given := [name for name in _RED if getattr(self, name)]:
                raise ValueError(f"{given[0]} requires redflowlimit BYTES")
            return
        minimum, maximum = self.red_thresholds
        if maximum > self.redflowlimit or minimum >= maximum:
            raise ValueError(f"min {minimum} < max {maximum} <= redflowlimit {self.redflowlimit} is not satisfied")
        red_math.ewma_log(minimum, self.red_burst, self.avpkt or 1000)

    @property
    def red_thresholds(self) -> tuple[int, int]:
        """Return min and max of the flows' RED in bytes, tc's defaults if not given."""
        assert self.redflowlimit is not None
        maximum = self.max or self.redflowlimit // 4
        return self.min or maximum // 3, maximum

    @property
    def red_burst(self) -> int:
        """Return the burst of the flows' RED in packets, tc's default if not given."""
        return self.burst or red_math.burst_default(*self.red_thresholds, self.avpkt or 1000)

    def derived_differences(self, actual: Mapping[str, Any]) -> list[str]:
        if self.redflowlimit is None:
            return []
        minimum, maximum = self.red_thresholds
        wlog = red_math.ewma_log(minimum, self.red_burst, self.avpkt or 1000)
        requested = {"min": minimum, "max": maximum, "ewma": wlog}
        return [
            f"{key}: requested {value}, found {actual.get(key)}"
            for key, value in requested.items()
            if actual.get(key) != value
        ]
