# SPDX-License-Identifier: Apache-2.0
"""How sure a figure is that several runs gave: bootstrap intervals, and the least effect that so many runs can show.

Equal values give equal results: the resampling has a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, BaseModel, ConfigDict
from scipy import stats  # type: ignore[import-untyped]

Statistic = Literal["mean", "median"]
Number = Annotated[float, AfterValidator(lambda value: round(value, 4) + 0.0)]

#: Confidence of the intervals, and the power at which the least detectable effect is told.
LEVEL, POWER = 0.95, 0.8
RESAMPLES, SEED = 10_000, 1
#: From so many runs on an interval may be called a result.
ENOUGH = 5


class Estimate(BaseModel):
    """A figure over runs: `value` is the `statistic` of `values`; of one run there is no interval."""

    model_config = ConfigDict(frozen=True)
    statistic: Statistic
    value: Number
    low: Number | None
    high: Number | None
    values: tuple[Number, ...]

    @property
    def n(self) -> int:
        """How many runs it is of."""
        return len(self.values)

    @property
    def away_from_zero(self) -> bool:
        """True when the interval leaves 0 out."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def estimate(values: Sequence[float], statistic: Statistic = "mean") -> Estimate:
    """The statistic of `values`, one a run, with its expanded bootstrap percentile interval.

    A plain percentile interval is too narrow for few runs. The percentiles are therefore Phi(±sqrt(n/(n-1)) t) with t
    Student's quantile of n - 1 degrees of freedom: T. C. Hesterberg, "What Teachers Should Know About the Bootstrap",
    The American Statistician 69(4), 2015, section 5.3. Raises ValueError when there is no value.
    """
    if not values:
        raise ValueError("no values to estimate from")
    take = np.mean if statistic == "mean" else np.median
    given, n = np.asarray(values, dtype=float), len(values)
    low = high = None
    if n > 1:
        resampled = stats.bootstrap(
            (given,), take, n_resamples=RESAMPLES, method="percentile", vectorized=True, rng=SEED
        ).bootstrap_distribution
        tail = stats.norm.cdf(-((n / (n - 1)) ** 0.5) * stats.t.ppf((1 + LEVEL) / 2, n - 1))
        low, high = (float(bound) for bound in np.quantile(resampled, (tail, 1 - tail)))
    return Estimate(statistic=statistic, value=float(take(given)), low=low, high=high, values=tuple(values))


class Difference(BaseModel):
    """Two independent series of runs: `value` is the statistic of the second less that of the first.

    `p` is of the permutation test, `least_p` the least that so many runs can give; None for a single run on a side.
    """

    model_config = ConfigDict(frozen=True)
    value: Number
    low: Number | None
    high: Number | None
    p: Number | None
    least_p: Number | None


def difference(first: Sequence[float], second: Sequence[float], statistic: Statistic = "mean") -> Difference:
    """The statistic of `second` less that of `first`, one value a run, with interval and p.

    The interval is the percentile one of both series resampled, expanded as in `estimate`: for n and m runs
    the standard error with n - 1 and m - 1 over that with n and m takes the place of sqrt(n/(n-1)), and the degrees
    of freedom are Welch's. p is of the two-sided permutation test, exact where there are no more than `RESAMPLES`
    ways to share the runs out: M. D. Ernst, "Permutation Methods: A Basis for Exact Inference", Statistical Science
    19(4), 2004; else the observed sharing is counted in: Phipson and Smyth, "Permutation P-values Should Never Be
    Zero", Statistical Applications in Genetics and Molecular Biology 9(1), 2010. Raises ValueError for no values.
    """
    if not first or not second:
        raise ValueError("no values to compare")
    take = np.mean if statistic == "mean" else np.median
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)

    def less(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], axis: int = -1) -> npt.NDArray[np.float64]:
        return np.asarray(take(y, axis=axis) - take(x, axis=axis))

    value = float(less(a, b))
    if min(len(a), len(b)) < 2:
        return Difference(value=value, low=None, high=None, p=None, least_p=None)
    low = high = value
    if (spread := np.array([np.var(a) / (len(a) - 1), np.var(b) / (len(b) - 1)])).any():
        resampled = stats.bootstrap(
            (a, b), less, n_resamples=RESAMPLES, method="percentile", vectorized=True, rng=SEED
        ).bootstrap_distribution
        freedom = spread.sum() ** 2 / (spread**2 / [len(a) - 1, len(b) - 1]).sum()
        wider = (spread.sum() / (np.var(a) / len(a) + np.var(b) / len(b))) ** 0.5
        tail = stats.norm.cdf(-wider * stats.t.ppf((1 + LEVEL) / 2, freedom))
        low, high = (float(bound) for bound in np.quantile(resampled, (tail, 1 - tail)))
    test = stats.permutation_test(
        (a, b), less, permutation_type="independent", vectorized=True, n_resamples=RESAMPLES, rng=SEED
    )
    ways = math.comb(len(a) + len(b), len(a))
    # Twice the smaller tail, whatever the sizes; of medians, which tie more often, no more than a bound.
    least = min(1.0, 2 / (RESAMPLES + 1 if ways > RESAMPLES else ways))
    return Difference(value=value, low=low, high=high, p=float(test.pvalue), least_p=least)


def least_detectable(differences: Sequence[float]) -> float | None:
    """The least true mean difference that a paired t-test over so many runs would find, in the unit of `differences`.

    (t[1-alpha/2] + t[power]) s / sqrt(n) with n - 1 degrees of freedom, alpha 0.05 two-sided, power 0.8: H. S. Bloom,
    "Minimum Detectable Effects", Evaluation Review 19(5), 1995. None for one run, and where all runs differ alike: what
    has not varied yet says nothing of how much it can.
    """
    n = len(differences)
    if n < 2:
        return None
    spread = float(np.std(differences, ddof=1))
    if spread < 1e-9:
        return None
    quantiles = stats.t.ppf([(1 + LEVEL) / 2, POWER], n - 1).sum()
    return float(quantiles * spread / n**0.5)


def best_coverage(n: int) -> float:
    """The chance that the least and the largest of `n` runs enclose the median: no bootstrap interval covers more."""
    return 1 - 2.0 ** (1 - n)
