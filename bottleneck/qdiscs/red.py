# SPDX-License-Identifier: Apache-2.0
"""red: random early detection (Floyd and Jacobson 1993, tc-red(8))."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from sojourn.bottleneck import red_math
from sojourn.bottleneck.parameters import Count, Flag, Fraction, Rate, Size
from sojourn.bottleneck.qdiscs.base import Qdisc

_DEFAULT_BANDWIDTH = 10_000_000


class Red(Qdisc):
    """RED in bytes; limit and avpkt are required. bandwidth in bit/s (default 10mbit), qevents are block numbers."""

    kind: ClassVar[str] = "red"
    mark_counters: ClassVar[tuple[str, ...]] = ("marked",)
    examples: ClassVar[tuple[str, ...]] = (
        "red limit 150000 avpkt 1000 adaptive bandwidth 10mbit ecn",
        "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 probability 0.05 bandwidth 100mbit "
        "ecn harddrop nodrop",
        "red limit 150000 avpkt 1500",
        "red limit 150000 avpkt 1000 ecn qevent early_drop block 10 qevent mark block 11",
    )

    limit: Annotated[int | None, Size(low=1)] = None
    min: Annotated[int | None, Size(low=1)] = None
    max: Annotated[int | None, Size(low=1)] = None
    avpkt: Annotated[int | None, Size(low=1, shown=False)] = None
    burst: Annotated[int | None, Count(low=1, unit="PACKETS", shown=False)] = None
    adaptive: Annotated[bool | None, Flag()] = None
    probability: Annotated[float | None, Fraction(low=0, high=1, step=2**-32)] = None
    bandwidth: Annotated[int | None, Rate(low=8, shown=False)] = None
    ecn: Annotated[bool | None, Flag()] = None
    harddrop: Annotated[bool | None, Flag()] = None
    nodrop: Annotated[bool | None, Flag()] = None
    qevent_early_drop: Annotated[int | None, Count(word="qevent early_drop block", low=1, shown=False)] = None
    qevent_mark: Annotated[int | None, Count(word="qevent mark block", low=1, shown=False)] = None

    def validate_together(self) -> None:
        if self.limit is None or self.avpkt is None:
            raise ValueError("limit BYTES and avpkt BYTES are required, as in: red limit 150000 avpkt 1000")
        minimum, maximum = self.thresholds
        if minimum > maximum:
            raise ValueError(f"min {minimum} is above max {maximum}")
        red_math.ewma_log(minimum, self.effective_burst, self.avpkt)
        if not red_math.probability_fits(minimum, maximum, 0.02 if self.probability is None else self.probability):
            raise ValueError(f"probability {self.probability} is too small for min {minimum} and max {maximum}")

    @property
    def thresholds(self) -> tuple[int, int]:
        """Return min and max in bytes, tc's defaults if not given."""
        assert self.limit is not None
        maximum = self.max or (self.min * 3 if self.min else self.limit // 4)
        return self.min or maximum // 3, maximum

    @property
    def effective_burst(self) -> int:
        """Return burst in packets, tc's default if not given."""
        assert self.avpkt is not None
        return self.burst or red_math.burst_default(*self.thresholds, self.avpkt)

    def not_compared(self) -> frozenset[str]:
        # Adaptive RED changes its probability every half second.
        return frozenset({"probability"} if self.adaptive else ())

    def derived_differences(self, actual: Mapping[str, Any]) -> list[str]:
        # The kernel gets no avpkt, burst and bandwidth from tc, but the weight and idle table computed from them.
        assert self.avpkt is not None
        minimum, maximum = self.thresholds
        wlog = red_math.ewma_log(minimum, self.effective_burst, self.avpkt)
        cell = red_math.idle_cell_log(wlog, self.avpkt, self.bandwidth or _DEFAULT_BANDWIDTH)
        requested = {"min": minimum, "max": maximum, "ewma": wlog, "Scell_log": cell}
        lines = [
            f"{key}: requested {value}, found {actual.get(key)}"
            for key, value in requested.items()
            if actual.get(key) != value
        ]
        blocks = {e.get("kind"): e.get("block") for e in actual.get("qevents", [])}
        for name, block in (("early_drop", self.qevent_early_drop), ("mark", self.qevent_mark)):
            if blocks.get(name) != block:
                lines.append(f"qevent {name}: requested block {block}, found {blocks.get(name)}")
        return lines
