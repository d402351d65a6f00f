# SPDX-License-Identifier: Apache-2.0
"""Figures as scores hold them: rounded, and infinite where something never came.

JSON has no infinite number: there it is the text `Infinity`, which `float` of Python and `Number` of JavaScript read.
"""

from __future__ import annotations

from math import inf, isfinite, isinf
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, PlainSerializer

LOST = "∞ (lost)"
"""What people are shown for a percentile that something reached which never came."""
UNFINISHED, NOT_REACHED = "unfinished", "not reached"
"""The same of a completion time and of a time to convergence: nothing was lost, and it may come later."""


def in_json(value: float) -> float | str:
    """A number as JSON can hold it. Raises ValueError for one that is not a number."""
    if isfinite(value):
        return value
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    raise ValueError("a score is not a number")


def formatted(value: float, spec: str, never: str = LOST) -> str:
    """A number as people are shown it: by its format `spec`, `never` where it is infinite."""
    if isinf(value):
        return never if value > 0 else f"−{never}"
    return format(value, spec)


def never_came(metric: str) -> str:
    """Return what people are shown for a metric of scores or of a cell where it is infinite and no more is known."""
    if metric.startswith(("web_fct", "short.")):
        return UNFINISHED
    return NOT_REACHED if metric.endswith("convergence_s") else LOST


Number = Annotated[
    float,
    AfterValidator(lambda value: round(value, 4) + 0.0),
    PlainSerializer(in_json, return_type=float | str, when_used="json"),
]
"""A figure of four decimals; of a model in JSON as `in_json` has it."""


def nearest_rank(values: npt.ArrayLike, percent: float, lost: int = 0) -> float | None:
    """The least value at or below which `percent` of all lie (nearest rank), where `lost` more never came.

    These count as infinitely late: leaving them out would flatter whatever loses most. None without any.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    count = ordered.size + lost
    if not count:
        return None
    # The share is rounded first: 0.99 of 100 is the 99th, whatever its last bit says.
    rank = max(int(np.ceil(round(percent / 100 * count, 9))), 1)
    return float(ordered[rank - 1]) if rank <= ordered.size else inf


def rank(values: npt.ArrayLike, percent: float, lost: int = 0, digits: int = 3) -> float | None:
    """The same, rounded to `digits` decimals."""
    value = nearest_rank(values, percent, lost)
    return None if value is None else round(value, digits)
