# SPDX-License-Identifier: Apache-2.0
"""The formulas of draft-ietf-ippm-responsiveness-09 with the draft's own numbers, and the stages of its test."""

from __future__ import annotations

import pytest

from sojourn.traffic.responsiveness import (
    FOREIGN_BYTES,
    SELF_BYTES,
    ForeignProbe,
    Stages,
    foreign_responsiveness,
    foreign_times,
    loaded_responsiveness,
    probe_interval_s,
    responsiveness,
    rpm,
    stable,
    trimmed_mean,
)


@pytest.mark.parametrize(("rtt_ms", "expected"), [(200, 300), (60, 1000), (10, 6000), (90, 667)])
def test_round_trips_per_minute_are_those_of_the_draft(rtt_ms: float, expected: float) -> None:
    # "Round-Trips per Minute": poor below 300 RPM, 200 ms; good from 1000, 60 ms; excellent from 6000, 10 ms.
    assert round(rpm(rtt_ms) or 0) == expected
    assert round(foreign_responsiveness([ForeignProbe(rtt_ms, rtt_ms, rtt_ms)]) or 0) == expected


@pytest.mark.parametrize(("count", "kept"), [(1, 1), (19, 19), (20, 19), (39, 38), (40, 38), (100, 95), (1000, 950)])
def test_the_worst_twentieth_is_discarded(count: int, kept: int) -> None:
    values = [float(n) for n in range(count, 0, -1)]  # in any order
    assert trimmed_mean(values) == pytest.approx((kept + 1) / 2)


def test_an_outlier_in_twenty_does_not_count_and_a_second_one_does() -> None:
    assert trimmed_mean([10.0] * 19 + [5000]) == 10
    assert trimmed_mean([10.0] * 18 + [5000, 5000]) == pytest.approx((180 + 5000) / 19)


def test_parts_are_trimmed_each_by_itself_and_weigh_the_same() -> None:
    probes = [ForeignProbe(20, 30, 70)] * 18 + [ForeignProbe(900, 30, 70), ForeignProbe(20, 900, 70)]
    assert foreign_times(probes) == (20, 30, 70)
    assert foreign_responsiveness(probes) == 60_000 / 40
    assert loaded_responsiveness([120.0] * 3) == 500
    # The average of round trips per minute, not of times.
    assert responsiveness(1500, 500) == 1000


def test_without_a_probe_nothing_is_known() -> None:
    assert trimmed_mean([]) is None and rpm() is None and rpm(20, None) is None
    assert foreign_responsiveness([]) is None and loaded_responsiveness([]) is None
    assert responsiveness(1000, None) is None and responsiveness(None, 1000) is None


def test_probes_take_at_most_a_twentieth_of_the_capacity_and_100_a_second() -> None:
    assert probe_interval_s(10e6, FOREIGN_BYTES + SELF_BYTES) == pytest.approx(0.096)
    assert probe_interval_s(1e6, FOREIGN_BYTES) == pytest.approx(0.8)
    assert probe_interval_s(1e9, FOREIGN_BYTES) == 0.01


def test_four_averages_within_a_twentieth_are_stable() -> None:
    assert stable([100, 100, 100, 100]) and stable([1, 100, 101, 99, 100])
    assert not stable([100, 100, 100]) and not stable([90, 110, 90, 110])
    # Standard deviation 5: not less than 5 % of 100.
    assert not stable([110, 100, 110, 100]) and stable([100, 110, 100, 110])


def test_goodput_is_stable_first_then_responsiveness() -> None:
    stages = Stages()
    assert stages.confidence == {"goodput": "Low", "responsiveness": "Low"}
    for goodput in (10e6, 10e6, 10e6):
        stages.interval(goodput, 900)
    assert not stages.saturated
    stages.interval(10e6, 900)
    assert stages.saturated and not stages.responsiveness  # tracked from now on
    for current in (600, 400, 300):
        stages.interval(10e6, current)
    stages.interval(10e6, 200)
    assert not stages.ended and stages.confidence == {"goodput": "High", "responsiveness": "Medium"}
    for _ in range(3):
        stages.interval(10e6, 200)
    assert stages.ended and stages.confidence["responsiveness"] == "High"
    stages.interval(1e6, 9000)  # the result stays
    assert stages.responsiveness[-1] == 200 and stages.averages_bps[-1] == 10e6


def test_a_moving_average_has_four_intervals() -> None:
    stages = Stages()
    for mbit in (2, 4, 6, 8, 10):
        stages.interval(mbit * 1e6, None)
    assert stages.averages_bps == [2e6, 3e6, 4e6, 5e6, 7e6] and not stages.saturated
    assert stages.confidence["goodput"] == "Medium"
