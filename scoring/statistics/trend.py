# SPDX-License-Identifier: Apache-2.0
"""Change points of a series of versions: the runs of every version, in order → the steps."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean, median
from typing import TypeVar

import numpy as np
import scipy  # type: ignore[import-untyped]

from sojourn.scoring.statistics.intervals import LEVEL, RESAMPLES, SEED, EstimatedDifference, difference

Key = TypeVar("Key", bound=Hashable)
#: Shares of the sum of squares closer together than this are the same.
_ALIKE = 1e-9


@dataclass(frozen=True)
class Change:
    """A step between two neighbouring versions.

    `version` is the index of the first version after it; `p` is for its place among all possible ones.
    """

    version: int
    p: float
    before: float
    """Mean of the runs from the previous change, or the first version, to this one; the median if a run is infinite."""
    after: float
    """The same for the runs from this change to the next."""
    step: EstimatedDifference
    """The runs from this change to the next, minus those before."""


def changes(series: Mapping[Key, Sequence[Sequence[float]]]) -> dict[Key, list[Change]]:
    """Find the change points of several series; a series is a list of versions, a version a list of runs' values.

    Binary segmentation (L. J. Vostrikova, "Detecting 'Disorder' in Multidimensional Random Processes", Soviet
    Mathematics Doklady 24, 1981): the place between versions that explains most of the sum of squares
    (the likelihood ratio of one step in normal noise: K. J. Worsley, "On the Likelihood Ratio Test for a Shift in
    Location of Normal Populations", JASA 74(366), 1979), then the same in both parts. p is the share of
    permutations of the runs over the versions whose best place explains as much; a step counts if p is
    below 1 - `LEVEL` over the number of series that vary (Bonferroni), so that series without a change give a step in
    at most 5 % of all calls. Runs of a version must be independent given the version. Steps are of means; if a run's
    value is infinite, places are computed from ranks, and steps are of medians. Versions without runs and constant
    series are skipped.
    """
    varying = {key: groups for key, groups in series.items() if len({value for group in groups for value in group}) > 1}
    return {key: list(_split(varying[key], (1 - LEVEL) / len(varying))) for key in varying}


def _split(groups: Sequence[Sequence[float]], alpha: float) -> Iterator[Change]:
    """Return the changes of one series, in order, with steps between neighbouring changes."""
    changes = sorted(_places(groups, 0, len(groups), alpha).items())
    bounds = [0, *(place for place, _ in changes), len(groups)]
    for (place, p), before, after in zip(changes, bounds[:-2], bounds[2:], strict=True):
        older, newer = _runs(groups[before:place]), _runs(groups[place:after])
        middle = fmean if all(map(isfinite, (*older, *newer))) else median
        yield Change(place, p, middle(older), middle(newer), difference(older, newer))


def _places(groups: Sequence[Sequence[float]], start: int, stop: int, alpha: float) -> dict[int, float]:
    """Return the changes among the versions from `start` to `stop`, with the p of every place."""
    best = _best(groups[start:stop])
    if best is None or best[1] >= alpha:
        return {}
    place, p = start + best[0], best[1]
    return {place: p} | _places(groups, start, place, alpha) | _places(groups, place, stop, alpha)


def _best(groups: Sequence[Sequence[float]]) -> tuple[int, float] | None:
    """Return the likeliest place of one change and its p; None if there is none."""
    ends = np.cumsum([len(group) for group in groups])
    values = np.asarray(_runs(groups), dtype=float)
    values = values if np.isfinite(values).all() else scipy.stats.rankdata(values)
    values = values - values.mean() if len(values) else values
    total = float(values @ values)
    # A version without a run is not a place.
    places = [n for n in range(1, len(groups)) if len(groups[n]) and 0 < ends[n - 1] < len(values)]
    if not places or total <= _ALIKE * max(len(values), 1):
        return None
    left = ends[[place - 1 for place in places]]
    weight = len(values) / (left * (len(values) - left) * total)

    def taken(sums: np.ndarray) -> np.ndarray:
        """Return the sum of squares that every place explains, from the sums of the values before it."""
        return np.asarray(sums[..., left - 1] ** 2 * weight)

    seen = taken(np.cumsum(values))
    shuffled = np.random.default_rng(SEED).permuted(np.tile(values, (RESAMPLES, 1)), axis=1)
    by_chance = taken(np.cumsum(shuffled, axis=1)).max(axis=1)
    p = (1 + int((by_chance >= seen.max() - _ALIKE).sum())) / (1 + RESAMPLES)
    return places[int(seen.argmax())], p


def _runs(groups: Sequence[Sequence[float]]) -> list[float]:
    return [value for group in groups for value in group]
