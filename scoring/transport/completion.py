# SPDX-License-Identifier: Apache-2.0
"""Completion times of short flows, and their harm."""

from __future__ import annotations

from math import inf, isfinite

import numpy as np
import polars as pl

from sojourn.scoring.schema.cell_scores import CompletionScores
from sojourn.scoring.statistics.harm import harm
from sojourn.scoring.statistics.numbers import rank


def completion(short: pl.DataFrame) -> CompletionScores:
    """Return flow completion times in s (columns of SHORT): percentiles are nearest ranks.

    An unfinished flow is infinitely late: it counts in the percentiles, and one makes the geometric mean infinite.
    """
    times = short["fct_s"].drop_nulls().to_numpy()
    unfinished = short.height - times.size
    if not short.height:
        return CompletionScores(count=0, unfinished=0)
    mean = inf if unfinished else float(np.exp(np.log(times).mean()))
    return CompletionScores(
        count=short.height,
        unfinished=unfinished,
        geometric_mean_s=round(mean, 6),
        median_s=rank(times, 50, unfinished, 6),
        p95_s=rank(times, 95, unfinished, 6),
    )


def completion_harm(solo: CompletionScores, contended: CompletionScores) -> dict[str, float]:
    """Harm to completion times, (contended - solo) / contended, by statistic, for statistics of both sides.

    None for one that is infinite alone.
    """
    rows = {}
    for name in ("geometric_mean", "median", "p95"):
        alone, value = (getattr(scores, f"{name}_s") for scores in (solo, contended))
        if alone is not None and value is not None and isfinite(alone):
            rows[name] = round(harm(alone, value, "less"), 4)
    return rows
