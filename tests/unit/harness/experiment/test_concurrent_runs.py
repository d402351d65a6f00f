# SPDX-License-Identifier: Apache-2.0
"""Runs one after another: what is requested of each, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest

from sojourn.harness.experiment.concurrent_runs import one_by_one
from sojourn.harness.experiment.run import Result
from sojourn.harness.experiment.series import SPARE, SeriesOfRuns
from sojourn.harness.options.model import Options
from sojourn.harness.options.rules import parse_options
from sojourn.harness.terminal import console_of
from sojourn.scoring.schema.scores import Scores


def outcomes(
    scores: Scores, void: Sequence[int], repeat: str | None, lab: str = "virtual", seed: str = "1"
) -> tuple[list[Options], list[Result], str]:
    """Repeat runs of which those numbered in `void` are invalid: what was requested, the results, what was said."""
    given = {"lab": lab, "timeline": "solo:5,cubic:2,prague:2", "repeat": repeat, "seed": seed}
    made: list[Options] = []

    def once(requested: Options) -> Result:
        made.append(requested)
        return Result(Path(f"run-{len(made)}"), scores, ("too late",) if len(made) in void else ())

    said = StringIO()
    results = list(one_by_one(SeriesOfRuns({"": parse_options(given)}), once, console_of(said)))
    return made, results, said.getvalue()


def test_without_repetitions_there_is_one_run_invalid_or_not(scores: Scores) -> None:
    made, results, said = outcomes(scores, [1], None)
    assert (len(made), len(results), said) == (1, 1, "")


def test_in_real_time_an_invalid_run_is_repeated_at_once_with_its_seed_and_order(scores: Scores) -> None:
    made, results, said = outcomes(scores, [2], "3", seed="5")
    assert [run.seed for run in made] == [5, 6, 6, 7] and made[1] == made[2]
    assert sum(not result.void for result in results) == 3
    order = ", ".join(phase.name for phase in made[0].phases if phase.contender)
    assert f"run 1 of 3: {order}; seed 5\n" in said
    assert said.count("run 2 of 3: ") == 2 and "seed 6: invalid: too late; repeated\n" in said


def test_in_simulated_time_another_seed_replaces_an_invalid_run_with_its_order(scores: Scores) -> None:
    made, results, said = outcomes(scores, [2], "3", "sim", seed="5")
    assert [run.seed for run in made] == [5, 6, 7, 8] and sum(not result.void for result in results) == 3
    assert [phase.contender for phase in made[3].phases] == [phase.contender for phase in made[1].phases]
    assert "seed 6: invalid: too late; replaced by seed 8\n" in said and "a further run: " in said


@pytest.mark.parametrize("lab", ["virtual", "sim"])
@pytest.mark.parametrize(("repeat", "void", "valid"), [("3", [1, 2, 3, 4, 5], 0), ("3", [1, 4], 3), ("1", [1, 2], 1)])
def test_more_runs_than_required_and_spare_are_not_made(
    scores: Scores, lab: str, repeat: str, void: list[int], valid: int
) -> None:
    made, results, _ = outcomes(scores, void, repeat, lab)
    assert len(made) == len(results) == int(repeat) + SPARE and sum(not result.void for result in results) == valid
