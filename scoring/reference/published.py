# SPDX-License-Identifier: Apache-2.0
"""Sojourn's figures vs. published ones, joined cell by cell."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite, isinf, log
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from sojourn.scoring.statistics.numbers import nearest_rank

FOLDER = Path(__file__).parent
AGREEING_SIZE, AGREEING_RANK = 0.15, 0.8
"""The definition of agreement: maximum median of |log(ours/theirs)|, and minimum rank correlation."""
FROZEN = "29 November 2026"
"""The date since when the definition is fixed; a change needs a new date and a reason in the changelog."""


@cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of a file of published figures, as text by column; lines that start with `#` are comments."""
    with (FOLDER / name).open(newline="") as file:
        return tuple(csv.DictReader(line for line in file if not line.startswith("#")))


@dataclass(frozen=True)
class Tolerance:
    """The tolerance of a figure: a share of the published one, or with `absolute`, in the figure's unit."""

    most: float
    absolute: bool = False

    def __str__(self) -> str:
        return f"{self.most:g}" if self.absolute else f"{self.most:.0%}"

    def holds(self, ours: float, theirs: float) -> bool:
        """Whether ours is within the tolerance of theirs; True if both are infinite."""
        if isinf(ours) or isinf(theirs):
            return ours == theirs
        return abs(ours - theirs) <= self.most * (1 if self.absolute else abs(theirs)) + 1e-12


@dataclass(frozen=True)
class PublishedPair:
    """One figure of one cell: ours over all seeds, and the published one."""

    cell: str
    ours: float
    low: float
    high: float
    theirs: float
    agrees: bool | None
    """None without a tolerance."""

    @property
    def ratio(self) -> float | None:
        """Ours over theirs; None if theirs is 0 or infinite."""
        return self.ours / self.theirs if self.theirs and isfinite(self.theirs) else None

    @property
    def deviation(self) -> float:
        """The distance of ours from theirs, over theirs unless that is 0; infinite if one side is."""
        apart = abs(self.ours - self.theirs)
        return apart if isinf(self.theirs) else apart / (abs(self.theirs) or 1)

    @property
    def log_ratio(self) -> float | None:
        """Natural logarithm of ours over theirs, 0.15 for 16 % more; None if one of them is not above 0 or is
        infinite.
        """
        return log(self.ours / self.theirs) if 0 < self.ours < inf and 0 < self.theirs < inf else None


@dataclass(frozen=True)
class PublishedComparison:
    """One metric over the cells that have it on both sides.

    Cells with an infinite side (something never came) are in no figure of agreement; with a tolerance, a cell agrees
    if both sides are infinite. `infinite` counts such cells. Differences (a published figure is below 0) have no sizes:
    their order is all that is compared.
    """

    metric: str
    tolerance: Tolerance | None
    pairs: tuple[PublishedPair, ...]

    @property
    def spearman(self) -> float | None:
        """Rank correlation of ours and theirs over the cells, ties at their mean rank; None if undefined.

        Ours is rounded to the published digits, because theirs has no order below them.
        """
        ours = [round(p.ours, self._published_digits) for p in self._finite]
        return correlation(ranks(ours), ranks([p.theirs for p in self._finite]))

    @property
    def pearson(self) -> float | None:
        """Correlation of ours and theirs over the cells; None if undefined."""
        return correlation([p.ours for p in self._finite], [p.theirs for p in self._finite])

    @property
    def infinite(self) -> int:
        """The number of cells in which ours is infinite, and theirs."""
        return len(self.pairs) - len(self._finite)

    @property
    def median_log_ratio(self) -> float | None:
        """Median of log(ours/theirs): the common bias of all cells; None if no cell has a ratio."""
        return median(ratios) if (ratios := self._log_ratios) else None

    @property
    def median_abs_log_ratio(self) -> float | None:
        """Median of |log(ours/theirs)|: the error of a typical cell; None if no cell has a ratio."""
        return median(map(abs, ratios)) if (ratios := self._log_ratios) else None

    @property
    def near_share(self) -> float | None:
        """Share of the cells within AGREEING_SIZE of the published figure; those without a ratio are not, unless both
        sides are 0. None without any.
        """
        sizes = self._sizes
        return sum(size <= AGREEING_SIZE for size in sizes) / len(sizes) if sizes else None

    @property
    def p90_abs_log_ratio(self) -> float | None:
        """P90 of |log(ours/theirs)|: the error of the worst tenth of the cells at least; None if no cell has a ratio.

        The median says nothing about the other half. Nearest rank; cells without a ratio are the furthest.
        """
        return nearest_rank(sizes, 90) if (sizes := self._sizes) else None

    @property
    def _sizes(self) -> list[float]:
        if self._signed:
            return []
        return [abs(p.log_ratio) if p.log_ratio is not None else 0.0 if self._equal(p) else inf for p in self.pairs]

    def _equal(self, one: PublishedPair) -> bool:
        """Whether ours is theirs to the published digits, such as 0 and 0."""
        return isfinite(one.ours) and round(one.ours, self._published_digits) == one.theirs

    @property
    def _signed(self) -> bool:
        return any(p.theirs < 0 for p in self.pairs)

    @property
    def _published_digits(self) -> int:
        return max((len(np.format_float_positional(p.theirs).partition(".")[2]) for p in self._finite), default=0)

    @property
    def order_is_decisive(self) -> bool:
        """Whether the published figures differ enough for their order to be more than chance: one is further than
        AGREEING_SIZE, in log, from their median.
        """
        theirs = [p.theirs for p in self.pairs if p.theirs > 0]
        return any(abs(log(one / median(theirs))) > AGREEING_SIZE for one in theirs)

    @property
    def ordered(self) -> bool | None:
        """Whether ours have the order of theirs; None if the rank correlation is undefined."""
        return None if self.spearman is None else self.spearman >= AGREEING_RANK

    @property
    def similar(self) -> bool | None:
        """Whether half of the cells are within AGREEING_SIZE of the published figure, and in its order if that is
        decisive; those without a ratio are not, unless both sides are 0. None without any.
        """
        if not (sizes := self._sizes):
            return None
        return median(sizes) <= AGREEING_SIZE and not (self.order_is_decisive and self.ordered is False)

    @property
    def _finite(self) -> list[PublishedPair]:
        return [p for p in self.pairs if isfinite(p.ours) and isfinite(p.theirs)]

    @property
    def _log_ratios(self) -> list[float]:
        return [] if self._signed else [p.log_ratio for p in self.pairs if p.log_ratio is not None]

    def furthest(self, count: int) -> list[PublishedPair]:
        """Return the `count` cells with the largest |log(ours/theirs)|, worst first, except those without a ratio."""
        with_ratio = [p for p in self.pairs if p.log_ratio is not None and not self._signed]
        return sorted(with_ratio, key=lambda p: -abs(p.log_ratio or 0))[:count]

    @property
    def agreeing(self) -> int:
        """The number of cells that agree within the tolerance."""
        return sum(p.agrees is True for p in self.pairs)

    @property
    def disagreeing(self) -> list[PublishedPair]:
        """The cells that differ by more than the tolerance, the worst first."""
        return sorted((p for p in self.pairs if p.agrees is False), key=lambda p: -p.deviation)


def compare(
    ours: Mapping[str, Mapping[str, Sequence[float]]],
    published: Mapping[str, Mapping[str, float]],
    tolerance: Mapping[str, Tolerance],
) -> list[PublishedComparison]:
    """Join measured (cell → metric → one value per seed) and published figures (cell → metric → value).

    A cell agrees if the mean over its seeds is within the metric's tolerance of the published figure.
    """
    comparisons = []
    for metric in dict.fromkeys(metric for figures in published.values() for metric in figures):
        most = tolerance.get(metric)
        pairs = [
            pair(cell, ours[cell][metric], figures[metric], most)
            for cell, figures in published.items()
            if metric in figures and ours.get(cell, {}).get(metric)
        ]
        comparisons.append(PublishedComparison(metric, most, tuple(pairs)))
    return comparisons


def pair(cell: str, values: Sequence[float], theirs: float, tolerance: Tolerance | None) -> PublishedPair:
    """Return ours (mean, minimum and maximum of `values`) with a published figure."""
    ours = sum(values) / len(values)
    agrees = None if tolerance is None else tolerance.holds(ours, theirs)
    return PublishedPair(cell, ours, min(values), max(values), theirs, agrees)


def ranks(values: Sequence[float]) -> list[float]:
    """Return ranks from 1, with the mean rank for equal values."""
    return pl.Series(values, dtype=pl.Float64).rank("average").to_list()


def correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Pearson's correlation; None for fewer than three points, a constant side, or an infinite value."""
    if len(x) < 3 or len(set(x)) == 1 or len(set(y)) == 1 or not np.isfinite([*x, *y]).all():
        return None
    return float(np.corrcoef(x, y)[0, 1])
