# SPDX-License-Identifier: Apache-2.0
"""The runs of one or several experiments: their order, replacements of invalid ones, and those that were finished."""

from __future__ import annotations

from pathlib import Path

from sojourn.harness.experiment.run import Result
from sojourn.harness.experiment.series import SPARE, SeriesOfRuns
from sojourn.harness.options.model import Options
from sojourn.harness.options.rules import parse_options
from sojourn.scoring.schema.scores import Scores


def asked(repeat: int | None, seed: int = 1) -> Options:
    given = {"repeat": repeat and str(repeat), "seed": str(seed), "timeline": "solo:5,cubic:2,prague:2"}
    return parse_options(given)


def order(options: Options) -> list[str]:
    return [phase.contender for phase in options.phases if phase.contender]


def test_an_invalid_run_gives_its_place_and_order_to_the_next_seed() -> None:
    series = SeriesOfRuns({"": asked(3, seed=5)})
    first, second, _ = series.waiting
    assert [run.label for run in series.runs] == ["seed 5", "seed 6", "seed 7"]
    assert order(first.options) == order(second.options)[::-1]
    others = [series.instead_of(second) for _ in range(SPARE + 1)]
    assert [other.options.seed for other in others if other] == [8, 9] and others[-1] is None
    assert all(order(other.options) == order(second.options) for other in others if other)
    assert series.title(second).startswith("run 2 of 3: ")
    assert series.title(series.waiting[-1]).startswith("a further run")


def test_a_single_run_is_not_replaced() -> None:
    series = SeriesOfRuns({"": asked(None)})
    (only,) = series.runs
    assert series.instead_of(only) is None and series.wanted == 1


def test_every_experiment_has_its_first_seed_before_any_has_its_second() -> None:
    series = SeriesOfRuns({"rtt 10ms": asked(2), "rtt 20ms": asked(2, seed=7)})
    assert [run.label for run in series.runs] == [
        "rtt 10ms, seed 1", "rtt 20ms, seed 7", "rtt 10ms, seed 2", "rtt 20ms, seed 8",
    ]  # fmt: skip
    assert series.wanted == 4
    replaced = series.instead_of(series.runs[1])
    assert replaced and (replaced.experiment, replaced.options.seed) == ("rtt 20ms", 9)


def test_finished_runs_are_kept_and_invalid_ones_replaced(scores: Scores) -> None:
    series = SeriesOfRuns({"a": asked(2), "b": asked(2)})
    done = {1: Result(Path("1"), scores, ()), 2: Result(Path("2"), scores, ("late",))}
    a = series.runs[0].options
    series.keep(lambda options: done.get(options.seed) if options is a or options.seed == 2 else None)
    assert [run.label for run in series.kept] == ["a, seed 1", "a, seed 2", "b, seed 2"]
    assert [run.label for run in series.waiting] == ["b, seed 1", "a, seed 3", "b, seed 3"]


def test_a_sample_has_some_of_the_runs_and_replaces_none() -> None:
    both = {"a": asked(3), "b": asked(3)}
    every = [run.label for run in SeriesOfRuns(both).runs]
    series = SeriesOfRuns(both, sample=2)
    labels = [run.label for run in series.runs]
    assert len(labels) == series.wanted == len(series.waiting) == 2
    assert labels == [label for label in every if label in labels]
    assert series.instead_of(series.runs[0]) is None


def test_maps_of_the_same_options_with_other_services_have_other_samples() -> None:
    def labels(service: str) -> list[str]:
        options = parse_options({"timeline": "solo:5,cubic:2", "repeat": "6", "service": service, "recorder": "none"})
        return [run.label for run in SeriesOfRuns({"a": options, "b": options}, sample=6).runs]

    assert labels("youtube") != labels("o2tv")
