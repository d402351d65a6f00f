# SPDX-License-Identifier: Apache-2.0
"""Where the steady state of a series begins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BATCH = 5


def truncation(series: Sequence[float]) -> int:
    """Return how many of the first values are the warm-up, by the rule MSER-5.

    The values are averaged in batches of 5; of all numbers d of batches up to half of them the rule drops that which
    makes the standard error of what is left the least: the sum of the squared deviations from the mean over
    (n - d)^2. A series of fewer than four batches is dropped from not at all.

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
