# SPDX-License-Identifier: Apache-2.0
"""The least relevant differences: by unit, configurable, and decisive for what is shown."""

from __future__ import annotations

import pytest

from sojourn.scoring.statistics.intervals import estimate, shows
from sojourn.scoring.statistics.relevance import DEFAULT, NOTHING, RelevanceError, parse


@pytest.mark.parametrize(
    ("metric", "reference", "least"),
    [
        ("victim_mbps", 8.0, 0.4),
        ("flows.0.d_ss_mbps", 20.0, 1.0),
        ("rtt_answered_p99_ms", 300.0, 5.0),
        ("probes.0.p99_ms", 3.0, 5.0),
        ("mean_height", 720.0, 120.0),
        ("mean_height", 612.0, 120.0),
        ("lowest_height", 240.0, 48.0),
        ("played_height", 100.0, 48.0),
        ("played_height", 9000.0, 1080.0),
        ("stall_s", 3.0, 0.5),
        ("fps", 30.0, 1.0),
        ("frames_in_time", 0.9, 0.01),
        ("stalls", 4.0, 0.5),
        ("harm.rtt_p50_ms", 0.3, 0.05),
        ("harm.played_height", 0.3, 0.05),
        ("jain", 0.9, 0.01),
        ("foreign_rpm", 1000.0, 50.0),
    ],
)
def test_the_least_difference_follows_the_unit(metric: str, reference: float, least: float) -> None:
    assert DEFAULT.least(metric, reference) == pytest.approx(least)
    assert NOTHING.least(metric, reference) == 0


def test_an_infinite_reference_has_no_share() -> None:
    assert DEFAULT.least("victim_mbps", float("inf")) == 0


def test_some_sizes_are_changed() -> None:
    given = parse("goodput=10%, delay=2ms,picture=1,time=2s,harm=0.1")
    assert (given.goodput, given.delay, given.picture, given.time, given.harm) == (0.1, 2, 1, 2, 0.1)
    assert given.share == DEFAULT.share and parse("0") == NOTHING


@pytest.mark.parametrize("text", ["", "5", "goodput=5", "delay=3s", "delay=-1ms", "depth=3", "share=x%", "harm=0.1,"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(RelevanceError, match=r"give some of goodput=5%,delay=5ms,.*, or 0"):
        parse(text)


def test_a_significant_difference_below_it_is_not_shown() -> None:
    equal = estimate([0.12] * 6)
    assert shows(6, equal, 0.03, least=0.1) and not shows(6, equal, 0.03, least=0.2)
    assert shows(6, equal, 0.03, least=None)
