# SPDX-License-Identifier: Apache-2.0
"""Change points of a series of versions: the runs of every version, in order → the steps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate, pairwise
from math import ceil, comb, isfinite
from statistics import fmean, median
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import scipy  # type: ignore[import-untyped]

from sojourn.scoring.statistics.intervals import LEVEL, RESAMPLES, SEED, EstimatedDifference, difference

Key = TypeVar("Key", bound=Hashable)
FEWEST = 3
"""Least number of versions: between two, a step cannot be told from what differs from version to version."""
#: How the error is shared between steps, and steps there and back.
_WEIGHTS = (0.8, 0.2)
#: Draws that would be above the smallest p that counts, were they all: many series must not put it out of reach.
_ABOVE = 4
#: Draws at a time: the spans of 50 versions are a thousand.
_CHUNK = 4096
#: Shares of the sum of squares, and values, closer together than this are the same.
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

    Circular binary segmentation (A. B. Olshen and others, "Circular Binary Segmentation for the Analysis of Array-Based
    DNA Copy Number Data", Biostatistics 5(4), 2004): the step, or step there and back, that explains most of the sum of
    squares of the versions' means (for one step, the likelihood ratio in normal noise: K. J. Worsley, "On the
    Likelihood Ratio Test for a Shift in Location of Normal Populations", JASA 74(366), 1979), then the same in the
    parts. p is the larger of two: the share of series of as many normal values whose best place explains as much, so
    that what each version draws anew, an evening or a build, is no change; and that of permutations of the runs over
    the versions, so that one run is none. A step counts if p is below 1 - `LEVEL` over the number of series that vary
    (Bonferroni), so that series without a change give a step in at most 5 % of all calls. Steps are of means; if a
    run's value is infinite, places are computed from ranks, and steps are of medians. Versions without runs, constant
    series and series of fewer than `FEWEST` versions are skipped.
    """
    varying = {key: groups for key, groups in series.items() if len({value for group in groups for value in group}) > 1}
    return {key: list(_split(varying[key], _alpha(len(varying)))) for key in varying}


def can_show(runs: Sequence[int], series: int) -> bool:
    """Return whether the clearest step would count, given the runs of every version and the series that vary.

    Of the ways to arrange n runs, of which r are on one side of the step, 1 in C(n, r) has them all there, and as many
    as there are other places with r runs on either side.
    """
    ends = list(accumulate(it for it in runs if it))
    if len(ends) < FEWEST:
        return False
    *places, count = ends
    least = min(sum((end == at) + (count - end == at) for end in places) / comb(count, at) for at in places)
    return least / _WEIGHTS[0] < _alpha(series)


def _alpha(series: int) -> float:
    return (1 - LEVEL) / max(series, 1)


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
    best = _best(groups[start:stop], alpha)
    if best is None:
        return {}
    inner = [start + place for place in best[0]]
    bounds = [start, *inner, stop]
    changes = dict.fromkeys(inner, best[1])
    for low, high in pairwise(bounds):
        changes |= _places(groups, low, high, alpha)
    return changes


def _best(groups: Sequence[Sequence[float]], alpha: float) -> tuple[tuple[int, ...], float] | None:
    """Return the place of a change, or the places of one there and back, and its p; None if no p is below `alpha`."""
    known = [n for n, group in enumerate(groups) if len(group)]  # a version without a run is not a place
    values = np.asarray(_runs(groups), dtype=float)
    values = values if np.isfinite(values).all() else scipy.stats.rankdata(values)
    if len(known) < FEWEST or np.ptp(values) < _ALIKE:
        return None
    ends = np.array([0, *np.cumsum([len(groups[n]) for n in known])])
    means = np.array([runs.mean() for runs in np.split(values, ends[1:-1])])
    if np.ptp(means) < _ALIKE:
        return None
    found = []
    draws = max(RESAMPLES, ceil(_ABOVE / (alpha * min(_WEIGHTS))))
    for spans, by_chance, weight in zip(_spans(len(means)), _by_chance(len(means), draws), _WEIGHTS, strict=True):
        seen = _explained(means, spans)
        p = _share_above(by_chance, seen.max(initial=0)) / weight
        if p < alpha:
            # One wild run is no change of its version.
            permuted, of_runs = partial(_permuted, np.random.default_rng(SEED), values), ends[spans]
            of_rows = _largest(permuted, draws, of_runs)
            p = max(p, _share_above(of_rows, _explained(values, of_runs).max()) / weight)
        if p < alpha:
            found.append((p, tuple(known[n] for n in spans[seen.argmax()] if 0 < n < len(known))))
    return min(found)[::-1] if found else None


def _spans(versions: int) -> tuple[npt.NDArray[np.int_], npt.NDArray[np.int_]]:
    """Return the spans of versions that may differ from the rest, (first, end) per row: of a step, of one and back.

    Of a step there and back they are at least two versions.
    """
    inner = [(first, end) for first in range(1, versions) for end in range(first + 2, versions)]
    return np.array([(0, end) for end in range(1, versions)]), np.array(inner, dtype=int).reshape(-1, 2)


def _explained(values: npt.NDArray[np.float64], spans: npt.NDArray[np.int_]) -> npt.NDArray[np.float64]:
    """Return the share of the sum of squares that a span's difference from the rest explains, for each span."""
    n = values.shape[-1]
    values = values - values.mean(axis=-1, keepdims=True)
    total = (values**2).sum(axis=-1, keepdims=True)
    sums = np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(values, axis=-1)], axis=-1)
    inside = spans[:, 1] - spans[:, 0]
    between = (sums[..., spans[:, 1]] - sums[..., spans[:, 0]]) ** 2
    return np.asarray(between * n / (inside * (n - inside) * total))


def _largest(
    rows: Callable[[int], npt.NDArray[np.float64]], draws: int, spans: npt.NDArray[np.int_]
) -> npt.NDArray[np.float64]:
    """Return the largest share that a span explains in each of so many `rows`."""
    sizes = (min(_CHUNK, draws - begun) for begun in range(0, draws, _CHUNK))
    return np.concatenate([_explained(rows(size), spans).max(axis=1, initial=0) for size in sizes])


def _permuted(rng: np.random.Generator, values: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.float64]:
    return rng.permuted(np.tile(values, (size, 1)), axis=1)


@cache
def _by_chance(versions: int, draws: int) -> tuple[npt.NDArray[np.float64], ...]:
    """Return the largest share that a span of each kind explains in series of normal values, of any SD."""
    return tuple(_largest(partial(_normal, np.random.default_rng(SEED), versions), draws, s) for s in _spans(versions))


def _normal(rng: np.random.Generator, versions: int, size: int) -> npt.NDArray[np.float64]:
    return rng.normal(size=(size, versions))


def _share_above(by_chance: npt.NDArray[np.float64], seen: float) -> float:
    return (1 + int((by_chance >= seen - _ALIKE).sum())) / (1 + len(by_chance))


def _runs(groups: Sequence[Sequence[float]]) -> list[float]:
    return [value for group in groups for value in group]
