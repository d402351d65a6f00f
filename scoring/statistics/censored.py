# SPDX-License-Identifier: Apache-2.0
"""Percentiles of times of which some were cut off: censored observations, which lasted at least as long as they had.

They are those of the Kaplan-Meier estimate (Kaplan and Meier, "Nonparametric Estimation from Incomplete Observations",
J. Am. Stat. Assoc. 53, 1958), which are ordinary percentiles (nearest rank) where nothing was cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf


def percentile(seen: Sequence[tuple[float, bool]], percent: float) -> float | None:
    """Return a percentile of times, each with whether it was reached or cut off; None without any.

    Infinite if the estimate does not fall that far: too many were cut off before.
    """
    share, left = 1.0, len(seen)
    if not left:
        return None
    # Of equal times, those that were reached come first.
    for time, reached in sorted(seen, key=lambda it: (it[0], not it[1])):
        if reached:
            share *= 1 - 1 / left
            if share <= 1 - percent / 100 + 1e-12:
                return round(time, 3)
        left -= 1
    return inf
