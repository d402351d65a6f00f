# SPDX-License-Identifier: Apache-2.0
"""pie: proportional integral controller enhanced (RFC 8033, tc-pie(8))."""

from __future__ import annotations

from typing import Annotated, ClassVar

from sojourn.bottleneck.parameters import Count, Flag, Time, jiffies, psched_time
from sojourn.bottleneck.qdiscs.base import Qdisc


class Pie(Qdisc):
    """PIE on one queue; times in µs, alpha and beta in sixteenths, as in tc."""

    kind: ClassVar[str] = "pie"
    mark_counters: ClassVar[tuple[str, ...]] = ("ecn_mark",)
    examples: ClassVar[tuple[str, ...]] = (
        "pie",
        "pie limit 100 target 7ms tupdate 30ms alpha 4 beta 21 ecn bytemode dq_rate_estimator",
        "pie target 333us tupdate 20ms noecn nobytemode no_dq_rate_estimator",
    )

    limit: Annotated[int | None, Count(low=1, unit="PACKETS")] = None
    target: Annotated[int | None, Time(low=1, rounding=psched_time)] = None
    tupdate: Annotated[int | None, Time(low=1, rounding=jiffies)] = None
    alpha: Annotated[int | None, Count(low=1, high=32)] = None
    beta: Annotated[int | None, Count(low=1, high=32)] = None
    ecn: Annotated[bool | None, Flag(off="noecn")] = None
    bytemode: Annotated[bool | None, Flag(off="nobytemode")] = None
    dq_rate_estimator: Annotated[bool | None, Flag(off="no_dq_rate_estimator")] = None
