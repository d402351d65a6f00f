# SPDX-License-Identifier: Apache-2.0
"""Change points: a planted step is found where it is, and none where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.scoring.statistics.intervals import LEVEL
from sojourn.scoring.statistics.trend import changes

pytestmark = pytest.mark.usefixtures("few_resamples")

VERSIONS, RUNS, FIGURES = 12, 5, 20


def noise(seed: int, spread: float = 0.08) -> dict[str, np.ndarray]:
    """Figures around 1 of versions that are all alike."""
    values = np.random.default_rng(seed).normal(1, spread, (FIGURES, VERSIONS, RUNS))
    return {f"figure {n}": values[n] for n in range(FIGURES)}


@pytest.mark.parametrize("first", range(1, VERSIONS))
def test_a_fifth_less_is_found_with_the_version_that_lost_it(first: int) -> None:
    for seed in range(3):
        series = noise(seed, spread=0.045)
        series["goodput"] = noise(100 + seed, spread=0.045)["figure 0"]
        series["goodput"][first:] *= 0.8
        (change,) = changes(series)["goodput"]
        assert change.version == first and change.step.value == pytest.approx(-0.2, abs=0.08)
        assert change.step.low is not None and change.step.low < -0.2 < (change.step.high or 0) + 0.06


@pytest.mark.parametrize("first", range(1, VERSIONS))
def test_a_rung_less_is_found_where_runs_are_all_alike_else(first: int) -> None:
    heights = np.full((VERSIONS, RUNS), 720.0)
    heights[first:] = 480
    (change,) = changes(noise(1) | {"height": heights})["height"]
    assert (change.version, change.before, change.step.value) == (first, 720, -240)


def test_a_step_there_and_back_is_two_changes_each_beside_its_neighbours() -> None:
    values = noise(3, spread=0.03)["figure 0"]
    values[4:8] += 0.3
    down, up = changes({"goodput": values})["goodput"]
    assert (down.version, up.version) == (4, 8)
    assert down.step.value == pytest.approx(0.3, abs=0.05) and up.step.value == pytest.approx(-0.3, abs=0.05)


@pytest.mark.parametrize("between", [0.0, 0.5, 1.0, 2.4])
def test_what_each_version_draws_anew_is_a_change_as_seldom_as_documented(between: float) -> None:
    """With differences between versions of so many standard deviations of the runs."""
    histories, reported = 60, 0
    for seed in range(histories):
        draw = np.random.default_rng(1000 + seed)
        values = draw.normal(size=(5, 8, RUNS)) + between * draw.normal(size=(5, 8, 1))
        reported += any(changes(dict(enumerate(values))).values())
    assert reported <= 3 * (1 - LEVEL) * histories  # 9 of 60 where 5 % are right: 0.2 % of sixties


def test_one_wild_run_is_no_change() -> None:
    values = np.ones((VERSIONS, RUNS)) + noise(5, 0.02)["figure 1"]
    values[6, 2] = 0.2
    assert not changes({"goodput": values})["goodput"]


def test_few_runs_show_nothing_and_versions_without_runs_are_passed_over() -> None:
    assert not changes({"goodput": [[3.0], [1.0]]})["goodput"]
    assert "steady" not in changes({"steady": [[1.0, 1.0], [1.0]]})
    assert changes({}) == {}
    high, low = [5.0, 5.1, 4.9, 5.0, 5.1], [3.0, 3.1, 2.9, 3.0, 3.1]
    values: list[list[float]] = [high, [], high[::-1], [], low, []]
    (change,) = changes({"goodput": values})["goodput"]
    assert change.version == 4
