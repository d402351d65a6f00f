# SPDX-License-Identifier: Apache-2.0
"""Uncertainty of figures over runs: bootstrap intervals, and the least detectable effect.

Equal values give equal results: the resampling has a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import scipy  # type: ignore[import-untyped]  # its first use imports scipy.stats, which takes half a second
from pydantic import BaseModel, ConfigDict

from sojourn.scoring.statistics.numbers import Number

Statistic = Literal["mean", "median"]

#: Confidence of the intervals, and the power of the least detectable effect.
LEVEL, POWER = 0.95, 0.8
RESAMPLES, SEED = 10_000, 1
#: Minimum number of runs for a result.
ENOUGH = 5
#: Maximum rounding error of four decimals.
_ROUNDED = 1e-9
#: Differences that deviate by less than this are equal.
_NO_SPREAD = 1e-9
Key = TypeVar("Key", bound=Hashable)


class Estimate(BaseModel):
    """A figure over runs: `value` is the `statistic` of `values`; a single run has no interval."""

    model_config = ConfigDict(frozen=True)
    statistic: Statistic
    value: Number
    low: Number | None
    high: Number | None
    values: tuple[Number, ...]

    @property
    def n(self) -> int:
        """The number of runs."""
        return len(self.values)

    @property
    def away_from_zero(self) -> bool:
        """Whether the interval excludes 0."""
        return _away_from_zero(self.low, self.high)


def _away_from_zero(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and (low > 0 or high < 0)


class Interval(Protocol):
    """A figure with its interval."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def shows(n: int, less: Interval, p: float | None, least: float | None) -> bool:
    """Return whether the difference `less` over `n` runs (per side) is a result.

    It requires `ENOUGH` runs, a size of at least `least` (`sojourn.scoring.statistics.relevance`), an interval that
    excludes 0, and a `p` of at most 1 - `LEVEL`: the primary metric's as tested, that of others corrected for their
    number (`holm`). The interval alone is too narrow for few runs: without
    an effect, it excludes 0 in about 8 % of series of 5 normal values, and in 13 % of exponential ones.
    """
    if n < ENOUGH or abs(less.value) < (least or 0) - _ROUNDED:
        return False
    return _away_from_zero(less.low, less.high) and p is not None and p <= 1 - LEVEL + _ROUNDED


def estimate(values: Sequence[float], statistic: Statistic = "mean") -> Estimate:
    """Return the statistic of `values`, one per run, with its expanded bootstrap percentile interval.

    If a value is infinite, the mean does not exist: the median replaces it. A plain percentile interval is too
    narrow for few runs. The percentiles are therefore Phi(±sqrt(n/(n-1)) t) with t Student's quantile of n - 1 degrees
    of freedom: T. C. Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69(4),
    2015, section 5.3. Raises ValueError when there is no value.
    """
    if not values:
        raise ValueError("no values to estimate from")
    given, n = np.asarray(values, dtype=float), len(values)
    finite = bool(np.isfinite(given).all())
    if not finite:
        statistic = "median"
    take = np.mean if statistic == "mean" else _median
    low = high = None
    if n > 1:
        tail = scipy.stats.norm.cdf(-((n / (n - 1)) ** 0.5) * scipy.stats.t.ppf((1 + LEVEL) / 2, n - 1))
        low, high = _resampled((given,), take, tail, finite)
    return Estimate(statistic=statistic, value=float(take(given)), low=low, high=high, values=tuple(values))


def _median(values: npt.NDArray[np.float64], axis: int = -1) -> npt.NDArray[np.float64]:
    """Return the median; 0 if it is between both infinities."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(np.median(values, axis=axis), nan=0.0, posinf=np.inf, neginf=-np.inf)


def _resampled(
    series: tuple[npt.NDArray[np.float64], ...], take: Callable[..., Any], tail: float, finite: bool
) -> tuple[float, float]:
    """Return the quantiles `tail` and 1 - `tail` of `take` over the resampled series."""
    with np.errstate(invalid="ignore"):  # of an unused standard error
        drawn = scipy.stats.bootstrap(
            series, take, n_resamples=RESAMPLES, method="percentile", vectorized=True, rng=SEED
        )
    # Between a finite and an infinite value lies nothing.
    low, high = np.quantile(
        drawn.bootstrap_distribution, (tail, 1 - tail), method="linear" if finite else "inverted_cdf"
    )
    return float(low), float(high)


class EstimatedDifference(BaseModel):
    """Two series of runs: `value` is the statistic of the second minus that of the first.

    `p` is that of the test, `least_p` the least that the permutation test can give with so many runs, None for a
    single run. `paired`: of the differences between runs of one rig, not of two independent series.
    """

    model_config = ConfigDict(frozen=True)
    value: Number
    low: Number | None
    high: Number | None
    p: Number | None
    least_p: Number | None
    paired: bool = False


def paired_difference(
    first: Sequence[float], second: Sequence[float], statistic: Statistic = "mean"
) -> EstimatedDifference:
    """Return the statistic of the differences between `second` and `first`, run by run, with interval and p.

    What the runs of a pair have in common, such as their rig, cancels. Both infinite: a difference of 0. The interval
    is that of `estimate`, p that of `paired_p`. Raises ValueError for no values, and for series of two lengths.
    """
    pairs = zip(first, second, strict=True)
    differences = [0.0 if one == other else other - one for one, other in pairs]
    found = estimate(differences, statistic)
    return EstimatedDifference(
        value=found.value, low=found.low, high=found.high, p=paired_p(differences), least_p=None, paired=True
    )


def difference(first: Sequence[float], second: Sequence[float], statistic: Statistic = "mean") -> EstimatedDifference:
    """Return the statistic of `second` minus that of `first`, one value per run, with interval and p.

    The interval is the percentile one of both series resampled, expanded as in `estimate`: for n and m runs
    the standard error with n - 1 and m - 1 over that with n and m takes the place of sqrt(n/(n-1)), and the degrees
    of freedom are Welch's. p is of the two-sided permutation test, exact if there are at most `RESAMPLES`
    ways to divide the runs: M. D. Ernst, "Permutation Methods: A Basis for Exact Inference", Statistical Science
    19(4), 2004; otherwise the observed division is included: Phipson and Smyth, "Permutation P-values Should Never Be
    Zero", Statistical Applications in Genetics and Molecular Biology 9(1), 2010. If a value is infinite, medians are
    compared, the degrees of freedom are those of the shorter series, and the test is of the mean ranks (Wilcoxon's).
    Raises ValueError for no values.
    """
    if not first or not second:
        raise ValueError("no values to compare")
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    finite = bool(np.isfinite(a).all() and np.isfinite(b).all())
    take = np.mean if statistic == "mean" and finite else _median

    def less(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], axis: int = -1) -> npt.NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            apart = take(y, axis=axis) - take(x, axis=axis)
        return np.nan_to_num(apart, nan=0.0, posinf=np.inf, neginf=-np.inf)  # both infinite: not apart

    value = float(less(a, b))
    if (least_n := min(len(a), len(b))) < 2:
        return EstimatedDifference(value=value, low=None, high=None, p=None, least_p=None)
    low = high = value
    if not finite:
        tail = scipy.stats.norm.cdf(
            -((least_n / (least_n - 1)) ** 0.5) * scipy.stats.t.ppf((1 + LEVEL) / 2, least_n - 1)
        )
        low, high = _resampled((a, b), less, tail, finite)
    elif (spread := np.array([np.var(a) / (len(a) - 1), np.var(b) / (len(b) - 1)])).any():
        freedom = spread.sum() ** 2 / (spread**2 / [len(a) - 1, len(b) - 1]).sum()
        wider = (spread.sum() / (np.var(a) / len(a) + np.var(b) / len(b))) ** 0.5
        tail = scipy.stats.norm.cdf(-wider * scipy.stats.t.ppf((1 + LEVEL) / 2, freedom))
        low, high = _resampled((a, b), less, tail, finite)
    tested = (a, b) if finite else tuple(np.split(scipy.stats.rankdata(np.concatenate([a, b])), [len(a)]))
    test = scipy.stats.permutation_test(
        tested, less if finite else _mean_less, permutation_type="independent", vectorized=True,
        n_resamples=RESAMPLES, rng=SEED,
    )  # fmt: skip
    ways = math.comb(len(a) + len(b), len(a))
    # Twice the smaller tail, whatever the sizes; of medians, which tie more often, no more than a bound.
    least = min(1.0, 2 / (RESAMPLES + 1 if ways > RESAMPLES else ways))
    return EstimatedDifference(value=value, low=low, high=high, p=float(test.pvalue), least_p=least)


def _mean_less(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], axis: int = -1) -> npt.NDArray[np.float64]:
    return np.asarray(np.mean(y, axis=axis) - np.mean(x, axis=axis))


def paired_p(differences: Sequence[float], first: Sequence[bool] = ()) -> float | None:
    """Return the two-sided p of the paired t-test (the test of `least_detectable`); None for one run.

    `first` says in which runs the one of both came first: order is then a factor of the test, so that its effect is
    neither a difference nor noise: M. Hills and P. Armitage, "The Two-Period Cross-Over Clinical Trial", British
    Journal of Clinical Pharmacology 8(1), 1979. If the test is undefined (infinite or equal differences), the p of the
    exact sign test, at least 2^(1-n): W. J. Dixon and A. M. Mood, "The Statistical Sign Test", JASA 41(236), 1946.
    """
    given = np.asarray(differences, dtype=float)
    if given.size < 2:
        return None
    if (known := _student(given, first)) is not None:
        mean, error, freedom = known
        return float(2 * scipy.stats.t.sf(abs(mean) / error, freedom))
    up, down = int((given > 0).sum()), int((given < 0).sum())
    return float(scipy.stats.binomtest(up, up + down).pvalue) if up + down else 1.0


def crossover_estimate(
    differences: Sequence[float], first: Sequence[bool] = (), statistic: Statistic = "mean"
) -> Estimate:
    """Return the estimate of paired differences in which, as in `paired_p`, the order is a factor if `first` allows.

    Then the value is the mean of both orders' means, and the interval Student's of the same test. Otherwise, for a
    median, and where the test is undefined, as `estimate` has it.
    """
    given = np.asarray(differences, dtype=float)
    known = _student(given, first) if statistic == "mean" and len(_by_order(given, first)) > 1 else None
    if known is None:
        return estimate(differences, statistic)
    mean, error, freedom = known
    half = float(scipy.stats.t.ppf((1 + LEVEL) / 2, freedom)) * error
    return Estimate(statistic="mean", value=mean, low=mean - half, high=mean + half, values=tuple(differences))


def order_p(differences: Sequence[float], first: Sequence[bool]) -> float | None:
    """Return the two-sided p of an effect of the order on `differences`, by Student's t-test of both orders.

    None with fewer than two runs of an order, and if the test is undefined.
    """
    given = np.asarray(differences, dtype=float)
    groups, known = _by_order(given, first), _student(given, first)
    if len(groups) < 2 or known is None:
        return None
    one, other = groups
    _, error, freedom = known
    return float(2 * scipy.stats.t.sf(abs(one.mean() - other.mean()) / (2 * error), freedom))


def _by_order(given: npt.NDArray[np.float64], first: Sequence[bool]) -> list[npt.NDArray[np.float64]]:
    """Return the values of both orders apart; together if there are fewer than two of one."""
    if len(first) == given.size:
        came_first = np.asarray(first, dtype=bool)
        groups = [given[came_first], given[~came_first]]
        if min(group.size for group in groups) > 1:
            return groups
    return [given]


def _student(given: npt.NDArray[np.float64], first: Sequence[bool]) -> tuple[float, float, int] | None:
    """Return mean, standard error and degrees of freedom of differences, without the order's effect.

    None for one run, for equal differences (which say nothing about the variance), and for an infinite one.
    """
    groups = _by_order(given, first)
    freedom = given.size - len(groups)
    if freedom < 1 or not np.isfinite(given).all():
        return None
    squares = sum(float(np.var(group)) * group.size for group in groups)
    if (spread := (squares / freedom) ** 0.5) < _NO_SPREAD:
        return None
    error = spread * sum(1 / group.size for group in groups) ** 0.5 / len(groups)
    return float(np.mean([group.mean() for group in groups])), error, freedom


def holm(p: Mapping[Key, float]) -> dict[Key, float]:
    """Return p-values corrected for their number: without true differences, 5 % of families have one below 0.05.

    Source: S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6(2),
    1979.
    """
    corrected: dict[Key, float] = {}
    least = 0.0
    for rank, key in enumerate(sorted(p, key=lambda key: p[key])):
        corrected[key] = least = max(least, min(1.0, (len(p) - rank) * p[key]))
    return corrected


def least_detectable(differences: Sequence[float], first: Sequence[bool] = ()) -> float | None:
    """Return the least true mean difference that `paired_p` would detect over these runs, in their unit.

    (t[1-alpha/2] + t[power]) times the standard error, alpha 0.05 two-sided, power 0.8: H. S. Bloom, "Minimum
    Detectable Effects", Evaluation Review 19(5), 1995. None where that test is undefined.
    """
    if (known := _student(np.asarray(differences, dtype=float), first)) is None:
        return None
    _, error, freedom = known
    return float(scipy.stats.t.ppf([(1 + LEVEL) / 2, POWER], freedom).sum() * error)


def best_coverage(n: int) -> float:
    """Return the probability that `n` runs enclose the median, the limit of bootstrap coverage."""
    return 1 - 2.0 ** (1 - n)
