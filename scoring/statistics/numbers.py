# SPDX-License-Identifier: Apache-2.0
"""Figures in scores: rounded, and infinite if something never arrived.

JSON has no infinite number: there it is the text `Infinity`, which `float` of Python and `Number` of JavaScript read.
"""

from __future__ import annotations

from math import inf, isfinite, isinf
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, PlainSerializer

LOST = "∞ (lost)"
"""The displayed text for a percentile that falls on something lost."""
UNFINISHED, NOT_REACHED = "unfinished", "not reached"
"""The same for completion and convergence times: nothing was lost, and it may still happen."""


def in_json(value: float) -> float | str:
    """Return a number as JSON data. Raises ValueError for NaN."""
    if isfinite(value):
        return value
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    raise ValueError("a score is not a number")


def formatted(value: float, spec: str, never: str = LOST) -> str:
    """Return a number as displayed: by its format `spec`, `never` if it is infinite."""
    if isinf(value):
        return never if value > 0 else f"−{never}"
    return format(value, spec)


def never_came(metric: str) -> str:
    """Return the displayed text for an infinite metric of scores or of a cell, if no more is known."""
    if metric.startswith(("web_fct", "short.", "fcp_", "lcp_", "load_")):
        return UNFINISHED
    return NOT_REACHED if metric.endswith(("convergence_s", "recovery_s")) else LOST


Number = Annotated[
    float,
    AfterValidator(lambda value: round(value, 4) + 0.0),
    PlainSerializer(in_json, return_type=float | str, when_used="json"),
]
"""A figure with four decimals; in a model's JSON as in `in_json`."""


def nearest_rank(values: npt.ArrayLike, percent: float, lost: int = 0) -> float | None:
    """Return the nearest-rank percentile of all values, including `lost` that never arrived.

    Lost ones count as infinitely late: excluding them would flatter whatever loses most. None without any.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    count = ordered.size + lost
    if not count:
        return None
    # The share is rounded first: 0.99 of 100 is the 99th, despite floating-point error.
    rank = max(int(np.ceil(round(percent / 100 * count, 9))), 1)
    return float(ordered[rank - 1]) if rank <= ordered.size else inf


def rank(values: npt.ArrayLike, percent: float, lost: int = 0, digits: int = 3) -> float | None:
    """Return `nearest_rank`, rounded to `digits` decimals."""
    value = nearest_rank(values, percent, lost)
    return None if value is None else round(value, digits)
