# SPDX-License-Identifier: Apache-2.0
"""fq_pie: flow queueing with PIE on each queue (tc-fq_pie(8))."""

from __future__ import annotations

from typing import Annotated, ClassVar

from sojourn.bottleneck.parameters import Count, Flag, Size, Time, jiffies, psched_time
from sojourn.bottleneck.qdiscs.base import Qdisc


class FqPie(Qdisc):
    """PIE on hashed flow queues; times in µs, sizes in bytes."""

    kind: ClassVar[str] = "fq_pie"
    filtered: ClassVar[bool] = True
    mark_counters: ClassVar[tuple[str, ...]] = ("ecn_mark",)
    examples: ClassVar[tuple[str, ...]] = (
        "fq_pie",
        "fq_pie limit 2000 flows 64 target 17ms tupdate 40ms alpha 3 beta 19 quantum 3000 memory_limit "
        "1mb ecn_prob 20 ecn bytemode dq_rate_estimator",
        "fq_pie noecn nobytemode no_dq_rate_estimator",
    )

    limit: Annotated[int | None, Count(low=1, unit="PACKETS")] = None
    flows: Annotated[int | None, Count(low=1, high=65536)] = None
    target: Annotated[int | None, Time(low=1, rounding=psched_time)] = None
    tupdate: Annotated[int | None, Time(low=1, rounding=jiffies)] = None
    alpha: Annotated[int | None, Count(low=1, high=32)] = None
    beta: Annotated[int | None, Count(low=1, high=32)] = None
    quantum: Annotated[int | None, Size(low=1, high=2**20)] = None
    memory_limit: Annotated[int | None, Size(low=1)] = None
    ecn_prob: Annotated[int | None, Count(low=1, high=99, unit="PERCENT")] = None
    ecn: Annotated[bool | None, Flag(off="noecn")] = None
    bytemode: Annotated[bool | None, Flag(off="nobytemode")] = None
    dq_rate_estimator: Annotated[bool | None, Flag(off="no_dq_rate_estimator")] = None
