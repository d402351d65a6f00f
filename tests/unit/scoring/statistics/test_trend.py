# SPDX-License-Identifier: Apache-2.0
"""Change points: a planted step is found where it is, and none where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.scoring.statistics.intervals import LEVEL
from sojourn.scoring.statistics.trend import can_show, changes

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


@pytest.mark.parametrize(
    ("runs", "series", "able"),
    [
        ([5, 5, 5], 94, False),
        ([5, 5, 5], 40, True),
        ([6, 6, 6], 94, True),
        ([9, 9], 1, False),
        ([5, 0, 5, 5], 94, False),
    ],
)
def test_whether_the_clearest_step_would_count_is_known(runs: list[int], series: int, able: bool) -> None:
    assert can_show(runs, series) is able
    draw = np.random.default_rng(3)
    values = [list(1 + draw.normal(0, 1e-3, size) + (version == len(runs) - 1)) for version, size in enumerate(runs)]
    rest = {n: [list(draw.normal(size=size)) for size in runs] for n in range(series - 1)}
    assert bool(changes({"step": values, **rest})["step"]) is able


@pytest.mark.parametrize("last", [VERSIONS, 8])
def test_a_clear_step_is_found_among_hundreds_of_series(last: int) -> None:
    """A step to the end, and one there and back."""
    values = noise(3, spread=0.01)["figure 0"]
    values[4:last] += 0.3
    draw = np.random.default_rng(4)
    rest = {n: draw.normal(size=(VERSIONS, RUNS)) for n in range(420)}
    assert [it.version for it in changes({"goodput": values, **rest})["goodput"]] == [4, 8][: 1 + (last == 8)]
