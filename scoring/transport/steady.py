# SPDX-License-Identifier: Apache-2.0
"""The start of a series' steady state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BATCH = 5


def truncation(series: Sequence[float]) -> int:
    """Return the number of values in the warm-up, by the rule MSER-5.

    The values are averaged in batches of 5; the rule drops d of them (at most half) such that
    the standard error of the rest is minimal: the sum of the squared deviations from the mean over (n - d)^2. A series
    of fewer than four batches has no warm-up.

    Source: K. P. White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69
    (1997); with batches of 5: White, Cobb, Spratt, "A comparison of five steady-state truncation heuristics for
    simulation", Winter Simulation Conference 2000.
    """
    whole = len(series) // BATCH
    if whole < 4:
        return 0
    batches = np.asarray(series[: whole * BATCH], dtype=np.float64).reshape(whole, BATCH).mean(axis=1)
    errors = [float(((left := batches[d:]) - left.mean()) @ (left - left.mean())) / left.size**2
              for d in range(whole // 2 + 1)]  # fmt: skip
    return int(np.argmin(errors)) * BATCH
