# SPDX-License-Identifier: Apache-2.0
"""How much rigs differ from each other, and how often an interval over a few runs contains the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from sojourn.scoring.statistics.intervals import estimate

SERIES = (5, 6, 8)
"""Lengths of the series of rigs whose intervals are checked."""


@dataclass(frozen=True)
class RigSpread:
    """Standard deviations and coverages of one figure, on exact paths and on rigs; all in the figure's unit."""

    between_paths: float
    """Standard deviation of the means of the exact paths."""
    within_path: float
    """Standard deviation of the seeds of one exact path, pooled over the paths."""
    over_rigs: float
    """Standard deviation over rigs, one run of each."""
    paths_cover: float
    """Share of exact paths whose interval over seeds contains the mean over all of them."""
    rigs_cover: Mapping[int, float]
    """Length of a series → share of all series of consecutive rigs whose interval contains the mean over all rigs."""
    rigs_cover_paths: float
    """Share of such series of the first length whose interval contains the mean over the exact paths."""


def rig_spread(paths: Sequence[Sequence[float]], rigs: Sequence[float]) -> RigSpread:
    """Return the spread of a figure: `paths` has its values per exact path, by seed, `rigs` those of consecutive seeds.

    Raises ValueError for fewer than two paths, fewer than two seeds of a path, or fewer rigs than the longest series.
    """
    if len(paths) < 2 or min(map(len, paths)) < 2 or len(rigs) < max(SERIES):
        raise ValueError(f"needs two paths, two seeds of each and {max(SERIES)} rigs")
    means = [fmean(path) for path in paths]
    centre, centre_of_rigs = fmean(means), fmean(rigs)
    short = [rigs[start : start + SERIES[0]] for start in range(len(rigs) - SERIES[0] + 1)]
    return RigSpread(
        between_paths=stdev(means),
        within_path=fmean(stdev(path) ** 2 for path in paths) ** 0.5,
        over_rigs=stdev(rigs),
        paths_cover=_share(paths, centre),
        rigs_cover={
            length: _share([rigs[start : start + length] for start in range(len(rigs) - length + 1)], centre_of_rigs)
            for length in SERIES
        },
        rigs_cover_paths=_share(short, centre),
    )


def _share(series: Sequence[Sequence[float]], value: float) -> float:
    """Return the share of series whose interval contains the value."""
    found = [estimate(one) for one in series]
    return fmean(it.low is not None and it.high is not None and it.low <= value <= it.high for it in found)
