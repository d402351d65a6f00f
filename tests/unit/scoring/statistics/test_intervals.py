# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import combinations, product
from math import inf, isnan

import numpy as np
import pytest

from sojourn.scoring.statistics import intervals
from sojourn.scoring.statistics.intervals import (
    EstimatedDifference,
    best_coverage,
    crossover_estimate,
    difference,
    estimate,
    holm,
    least_detectable,
    order_p,
    paired_difference,
    paired_p,
    shows,
)


@pytest.mark.parametrize("n", [5, 10])
def test_intervals_cover_the_mean_of_simulated_runs_nearly_as_often_as_they_say(n: int) -> None:
    """Plain percentile intervals cover 0.84 with five runs, 0.90 with ten; not the mean of others than was drawn."""
    rng = np.random.default_rng(20)
    drawn = [estimate(run.tolist()) for run in rng.normal(7, 2, (1000, n))]
    covered = np.mean([(it.low or 0) <= 7 <= (it.high or 0) for it in drawn])
    assert 0.90 <= covered <= 0.97
    assert np.mean([(it.low or 0) <= 11 <= (it.high or 0) for it in drawn]) < 0.2


def test_the_interval_of_four_runs_is_that_of_all_resamples() -> None:
    """All 256 resamples, by hand: their 0.012 % and 99.988 % percentiles are the least and the largest run."""
    means = sorted(sum(resample) / 4 for resample in product([1.0, 2.0, 4.0, 9.0], repeat=4))
    found = estimate([1.0, 2.0, 4.0, 9.0])
    assert (found.low, found.value, found.high) == (
        pytest.approx(means[0], abs=0.4),
        4,
        pytest.approx(means[-1], abs=1.5),
    )


def test_the_interval_of_thirty_runs_is_students() -> None:
    values = np.random.default_rng(3).normal(0, 1, 30)
    found = estimate(values.tolist())
    half = 2.0452 * values.std(ddof=1) / 30**0.5  # t of 29 degrees of freedom, from a table
    assert (found.low, found.high) == (
        pytest.approx(values.mean() - half, abs=0.05),
        pytest.approx(values.mean() + half, abs=0.05),
    )


def test_equal_values_give_equal_intervals() -> None:
    values = [3.1, 2.2, 5.9, 4.0, 4.4]
    assert estimate(values) == estimate(values)


def test_one_run_has_no_interval_and_none_is_an_error() -> None:
    one = estimate([3.0])
    assert (one.value, one.low, one.high, one.away_from_zero) == (3.0, None, None, False)
    with pytest.raises(ValueError, match="no values"):
        estimate([])


def test_runs_that_are_all_alike_have_an_interval_of_no_width() -> None:
    same = estimate([2.0] * 5)
    assert (same.value, same.low, same.high) == (2, 2, 2) and same.away_from_zero
    assert not estimate([0.0] * 5).away_from_zero


def test_a_median_is_not_moved_by_one_run() -> None:
    found = estimate([480, 480, 480, 480, 240], "median")
    assert (found.value, found.statistic, found.high) == (480, "median", 480)


def test_an_interval_away_from_zero_lies_on_one_side_of_it() -> None:
    assert estimate([1.0, 2, 3, 4, 5]).away_from_zero and estimate([-1.0, -2, -3, -4, -5]).away_from_zero
    assert not estimate([-1.0, 2, 3, 4, 5]).away_from_zero


def test_the_least_detectable_difference_by_hand() -> None:
    # s = 1.5811, √5 = 2.2361, and of four degrees of freedom t(0.975) = 2.7764, t(0.8) = 0.9410.
    assert least_detectable([1.0, 2, 3, 4, 5]) == pytest.approx((2.7764 + 0.9410) * 1.5811 / 2.2361, rel=1e-4)
    assert least_detectable([1.0]) is None and least_detectable([2.0, 2.0, 2.0]) is None


def test_the_orders_effect_is_in_neither_value_nor_interval() -> None:
    """By hand: orders apart by 0.3, within them a deviation of 0.01 with four degrees of freedom (t 2.776)."""
    differences, first = [0.25, -0.05, 0.26, -0.04, 0.24, -0.06], [True, False] * 3
    found = crossover_estimate(differences, first)
    half = 2.7764 * 0.01 / 6**0.5
    assert found.value == pytest.approx(0.1)
    assert (found.low, found.high) == (pytest.approx(0.1 - half, abs=1e-4), pytest.approx(0.1 + half, abs=1e-4))
    # Three of one order and two of the other: its mean counts as much.
    assert crossover_estimate(differences[:5], first[:5]).value == pytest.approx(0.1025)
    assert crossover_estimate(differences) == estimate(differences)
    assert crossover_estimate(differences, first, "median") == estimate(differences, "median")


def test_an_interval_without_the_orders_effect_excludes_0_where_its_p_is_small() -> None:
    rng = np.random.default_rng(5)
    for _ in range(100):
        differences, first = rng.normal(0.5, 1, 6).tolist(), [True, False] * 3
        assert crossover_estimate(differences, first).away_from_zero == ((paired_p(differences, first) or 0) < 0.05)


def test_a_paired_difference_is_that_of_the_runs() -> None:
    first = [1.0, 2, 3, 4, 5]
    found = paired_difference(first, [1.2, 2.1, 3.3, 4.2, 5.2])
    assert found.paired and found.value == pytest.approx(0.2) and found.p == pytest.approx(0.0032)
    assert 0.1 < (found.low or 0) < (found.high or 0) < 0.3
    assert difference(first, [1.2, 2.1, 3.3, 4.2, 5.2]).p == pytest.approx(1, abs=0.3)
    assert paired_difference([inf, 1], [inf, 1]).value == 0
    with pytest.raises(ValueError, match="shorter"):
        paired_difference([1.0, 2.0], [1.0])


@pytest.mark.parametrize(("effect", "n"), [(0.8, 15), (0.5, 34), (0.2, 199)])
def test_it_needs_as_many_runs_as_power_tables_say(effect: float, n: int) -> None:
    """Pairs for effects of 0.8, 0.5 and 0.2 standard deviations by a two-sided paired t-test: 15, 34 and 199."""

    def least(runs: int) -> float:
        values = np.resize([-1.0, 1.0], runs)
        values = (values - values.mean()) / values.std(ddof=1)
        return least_detectable(values.tolist()) or 0.0

    assert least(n) <= effect < least(n - 2)


def test_a_test_of_simulated_runs_finds_the_least_detectable_difference_in_four_of_five() -> None:
    rng = np.random.default_rng(8)
    runs = rng.normal(0, 1, (4000, 5)) + (2.7764 + 0.9410) / 5**0.5
    t = runs.mean(axis=1) / (runs.std(axis=1, ddof=1) / 5**0.5)
    assert np.mean(np.abs(t) > 2.7764) == pytest.approx(0.8, abs=0.03)


def test_what_the_range_of_few_runs_covers_at_best() -> None:
    assert [best_coverage(n) for n in (2, 3, 4, 5)] == [0.5, 0.75, 0.875, 0.9375]
    runs = np.random.default_rng(1).normal(0, 1, (20_000, 3))
    assert np.mean((runs.min(axis=1) < 0) & (runs.max(axis=1) > 0)) == pytest.approx(0.75, abs=0.01)


def test_the_p_of_a_difference_counts_all_ways_to_share_the_runs_out() -> None:
    """By hand: of the 20 ways to share 1, 2, 3, 4, 5, 9 out in threes, 4 differ by as much as these two do."""
    found = difference([1.0, 2.0, 4.0], [3.0, 5.0, 9.0])
    means = [abs(sum(x) / 3 - (24 - sum(x)) / 3) for x in combinations([1, 2, 3, 4, 5, 9], 3)]
    assert found.value == pytest.approx(10 / 3, abs=1e-4)
    assert found.p == sum(it >= 10 / 3 - 1e-9 for it in means) / 20 and found.least_p == 0.1
    assert difference([1.0, 2.0], [8.0, 9.0]).p == pytest.approx(2 / 6, abs=1e-4)


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (3, 4), (2, 5), (5, 5), (10, 12)])
def test_no_p_is_less_than_what_series_apart_give(sizes: tuple[int, int]) -> None:
    found = difference([float(it) for it in range(sizes[0])], [100.0 + it for it in range(sizes[1])])
    assert found.least_p == found.p


def test_a_difference_covers_the_truth_and_is_found_by_chance_as_often_as_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intervals, "RESAMPLES", 1000)
    rng = np.random.default_rng(7)
    drawn = [difference(rng.normal(5, 1, 5).tolist(), rng.normal(6, 2, 5).tolist()) for _ in range(300)]
    assert 0.90 <= np.mean([(it.low or 0) <= 1 <= (it.high or 0) for it in drawn]) <= 0.98
    same = [difference(a.tolist(), b.tolist()).p or 0 for a, b in rng.normal(5, 1, (300, 2, 5))]
    assert 0.02 <= np.mean([p <= 0.05 for p in same]) <= 0.08


def test_a_single_run_on_a_side_has_neither_interval_nor_p() -> None:
    one = difference([3.0], [5.0, 6.0])
    assert (one.value, one.low, one.high, one.p, one.least_p) == (2.5, None, None, None, None)
    same = difference([2.0, 2.0], [2.0, 2.0])
    assert (same.value, same.low, same.high, same.p) == (0, 0, 0, 1)
    with pytest.raises(ValueError, match="no values"):
        difference([], [1.0])


def test_holms_example_by_hand() -> None:
    """0.01 · 4, 0.02 · 3, then 0.03 · 2 which is no less than the one before, and 0.005 · 5 first of all."""
    given = {"a": 0.01, "b": 0.03, "c": 0.005, "d": 0.02, "e": 0.9}
    assert holm(given) == pytest.approx({"c": 0.025, "a": 0.04, "d": 0.06, "b": 0.06, "e": 0.9})
    assert holm({}) == {}


def test_few_families_without_any_difference_show_one() -> None:
    drawn = np.random.default_rng(5).normal(0, 1, (400, 12, 6))
    shown = [min(holm({n: paired_p(row) or 1 for n, row in enumerate(family)}).values()) <= 0.05 for family in drawn]
    assert np.mean(shown) <= 0.07


def test_a_paired_p_is_students_or_the_sign_tests() -> None:
    assert paired_p([1.0, 2, 3, 4, 5]) == pytest.approx(0.0132, abs=1e-4)  # t = 4.243, four degrees of freedom
    assert paired_p([2.0] * 5) == paired_p([inf, inf, inf, 3, 1]) == 2 * 0.5**5
    assert paired_p([0.0, 0, 0]) == 1 and paired_p([1.0]) is None


def test_order_is_a_factor_of_a_paired_p() -> None:
    first = [True, False] * 3
    carried_over = [0.3, -0.1, 0.31, -0.09, 0.29, -0.11]  # 0.1 on average, 0.2 more for what came first
    assert paired_p(carried_over) == pytest.approx(0.315, abs=0.001)
    assert paired_p(carried_over, first) == pytest.approx(1.65e-5, rel=0.01)  # t = 24.5 with 4 degrees of freedom
    assert order_p(carried_over, first) == pytest.approx(1.04e-6, rel=0.01)  # t = 49
    assert (least_detectable(carried_over, first) or 1) < (least_detectable(carried_over) or 0) / 10
    # One run of an order says nothing about its variance.
    assert paired_p(carried_over, [True] + [False] * 5) == paired_p(carried_over)
    assert (
        order_p(carried_over, [True] + [False] * 5) is None and order_p([inf] * 4, [True, True, False, False]) is None
    )


def test_few_families_with_order_as_a_factor_show_one() -> None:
    rows = np.random.default_rng(6).normal(0, 1, (2000, 6)) + np.tile([0.7, -0.7], 3)
    assert np.mean([(paired_p(row.tolist(), [True, False] * 3) or 1) <= 0.05 for row in rows]) <= 0.06


def test_what_is_infinite_has_a_median_and_no_mean() -> None:
    found = estimate([20.0, inf, 30.0, inf, inf])
    assert (found.value, found.statistic, found.low, found.high) == (inf, "median", 20, inf)
    assert not isnan(estimate([-inf, inf]).value) and least_detectable([1.0, inf]) is None


def test_a_difference_of_infinite_series_is_of_medians_and_ranks() -> None:
    found = difference([20.0, 21, 22, 23, 24], [inf] * 5)
    assert (found.value, found.low, found.high, found.p) == (inf, inf, inf, pytest.approx(2 / 252, abs=1e-4))
    same = difference([inf] * 3, [inf] * 3)
    assert (same.value, same.p) == (0, 1)


@pytest.mark.parametrize(
    ("n", "low", "high", "p", "shown"),
    [
        (5, 1.0, 2.0, 0.04, True),
        (4, 1.0, 2.0, 0.04, False),
        (5, 0.0, 2.0, 0.04, False),
        (5, -2.0, -1.0, 0.04, True),
        (5, None, None, 0.01, False),
        (5, 1.0, 2.0, None, False),
        (5, 1.0, 2.0, 0.05 + 1e-10, True),  # what Holm's products may add to 0.05
        (5, 1.0, 2.0, 0.051, False),
    ],
)
def test_a_result_takes_runs_an_interval_and_a_p(
    n: int, low: float | None, high: float | None, p: float | None, shown: bool
) -> None:
    less = EstimatedDifference(value=1.5, low=low, high=high, p=None, least_p=None)
    assert shows(n, less, p, least=None) is shown


def test_without_an_effect_a_result_is_as_rare_as_it_says() -> None:
    """Of paired differences of five runs, normal and skewed, at most 5 % and little more are results."""
    random = np.random.default_rng(7)
    series = {"normal": random.normal(size=(300, 5)), "skewed": random.exponential(size=(300, 5)) - 1}
    found = {
        kind: sum(shows(5, estimate(row.tolist()), paired_p(row.tolist()), least=None) for row in rows) / 300
        for kind, rows in series.items()
    }
    alone = sum(estimate(row.tolist()).away_from_zero for row in series["normal"]) / 300
    assert found["normal"] <= 0.06 < alone + 0.02 and found["skewed"] < 0.15
