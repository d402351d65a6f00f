# SPDX-License-Identifier: Apache-2.0
"""fq: fair queueing with per-flow pacing (tc-fq(8))."""

from __future__ import annotations

from typing import Annotated, ClassVar

from sojourn.bottleneck.parameters import Count, Flag, Numbers, Rate, Time, TimeNs, jiffies, power_of_two
from sojourn.bottleneck.qdiscs.base import Qdisc


class Fq(Qdisc):
    """Fair queueing; times in µs (timer_slack in ns), rates in bit/s, quanta in bytes."""

    kind: ClassVar[str] = "fq"
    mark_counters: ClassVar[tuple[str, ...]] = ("ce_mark",)
    examples: ClassVar[tuple[str, ...]] = (
        "fq",
        "fq limit 5000 flow_limit 50 quantum 3000 initial_quantum 15000 maxrate 8mbit buckets 1000 "
        "nopacing refill_delay 40ms bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 0 weights 589824 "
        "196608 65536 low_rate_threshold 550kbit orphan_mask 1023 timer_slack 20us ce_threshold 3ms "
        "horizon 2s horizon_cap offload_horizon 0",
        "fq pacing horizon_drop",
    )

    limit: Annotated[int | None, Count(unit="PACKETS")] = None
    flow_limit: Annotated[int | None, Count(unit="PACKETS")] = None
    quantum: Annotated[int | None, Count(low=1, high=2**20, unit="BYTES")] = None
    initial_quantum: Annotated[int | None, Count(high=2**31 - 1, unit="BYTES")] = None
    maxrate: Annotated[int | None, Rate()] = None
    buckets: Annotated[int | None, Count(low=2, high=2**18, rounding=power_of_two)] = None
    pacing: Annotated[bool | None, Flag(off="nopacing", absent=True)] = None
    refill_delay: Annotated[int | None, Time(rounding=jiffies)] = None
    priomap: Annotated[tuple[int, ...] | None, Numbers(word="bands 3 priomap", key="priomap", count=16, high=2)] = None
    weights: Annotated[tuple[int, ...] | None, Numbers(count=3, low=16384, high=2**31 - 1)] = None
    low_rate_threshold: Annotated[int | None, Rate()] = None
    orphan_mask: Annotated[int | None, Count(unit="MASK")] = None
    timer_slack: Annotated[int | None, TimeNs()] = None
    ce_threshold: Annotated[int | None, Time()] = None
    horizon: Annotated[int | None, Time()] = None
    horizon_drop: Annotated[bool | None, Flag(off="horizon_cap")] = None
    offload_horizon: Annotated[int | None, Time()] = None
