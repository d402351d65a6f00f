# SPDX-License-Identifier: Apache-2.0
"""Percentiles of times of which some were cut off."""

from __future__ import annotations

import random
from math import inf

from sojourn.scoring.statistics.censored import percentile
from sojourn.scoring.statistics.numbers import nearest_rank


def test_percentiles_without_cut_loads_are_the_ordinary_ones() -> None:
    draw = random.Random(1)
    for number in range(1, 60):
        times = [round(draw.lognormvariate(6, 1), 3) for _ in range(number)]
        for percent in (5, 50, 95):
            assert percentile([(time, True) for time in times], percent) == nearest_rank(times, percent)
    assert percentile([], 50) is None


def test_a_load_cut_off_early_says_nothing_and_one_cut_off_late_counts() -> None:
    # Kaplan and Meier's own estimate: 1 - 1/4 = 0.75, cut off, 0.75 (1 - 1/2) = 0.375, then 0.
    seen = [(10.0, True), (20.0, False), (30.0, True), (40.0, True)]
    assert [percentile(seen, percent) for percent in (20, 25, 50, 62, 63, 95)] == [10, 10, 30, 30, 40, 40]
    whole = [(10.0, True), (30.0, True), (40.0, True)]
    assert percentile([*whole, (1.0, False)], 50) == percentile(whole, 50) == 30
    # All that outlasted the others were cut off: the median was not reached.
    assert percentile([(10.0, True), (50.0, False), (60.0, False)], 50) == inf


def test_equal_times_of_which_one_was_cut_off() -> None:
    assert percentile([(10.0, False), (10.0, True)], 50) == 10
