# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from sojourn.harness.experiment.run import Result, name_of_test, repeat, replacement
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import OPTIONS, Options
from sojourn.harness.options.rules import parse_options
from sojourn.harness.store.manifest import StoreError
from sojourn.scoring.schema.scores import Scores
from tests.refusals import refusal


def asked(results: Path, repeat: str | None, **given: str) -> Options:
    named = (
        {"lab": "virtual", "timeline": "solo:2,cubic:2,prague:2"} | given | {"repeat": repeat, "results": str(results)}
    )
    return parse_options({option.name: None for option in OPTIONS} | named)


def outcomes(options: Options, scores: Scores, void: Sequence[int]) -> tuple[list[Options], list[Result], str]:
    """Repeat runs of which those numbered in `void` are void: what was asked of each, what came, what was said."""
    made: list[Options] = []

    def once(asked: Options) -> Result:
        made.append(asked)
        return Result(Path(f"run-{len(made)}"), scores, ("too late",) if len(made) in void else ())

    said = StringIO()
    results = list(repeat(options, once, said))
    return made, results, said.getvalue()


def test_the_name_of_a_run_follows_from_its_service(tmp_path: Path) -> None:
    for service, name in (("call", "call-harm"), ("youtube", "video-harm")):
        assert name_of_test(asked(tmp_path, None, service=service, lab="sim")) == name


def test_without_repetitions_there_is_one_run_void_or_not(scores: Scores, tmp_path: Path) -> None:
    options = asked(tmp_path, None)
    made, results, said = outcomes(options, scores, void=[1])
    assert (made, len(results), said) == ([options], 1, "")


def test_a_void_run_is_made_again_with_its_seed_and_order(scores: Scores, tmp_path: Path) -> None:
    made, results, said = outcomes(asked(tmp_path, "3", seed="5"), scores, void=[2])
    assert [run.seed for run in made] == [5, 6, 6, 7] and made[1] == made[2]
    assert sum(not result.void for result in results) == 3
    assert said.count("run 2 of 3: ") == 2 and "; seed 6, 1 invalid so far" in said
    order = ", ".join(p.name for p in made[0].phases if p.contender)
    assert f"run 1 of 3: {order}; seed 5\n" in said


def test_the_place_of_a_void_run_is_taken_with_its_seed_in_real_time_and_with_the_next_in_simulated_time(
    tmp_path: Path,
) -> None:
    void = asked(tmp_path, "3").repetition(2)
    assert replacement(void, 5) == void
    void = asked(tmp_path, "3", lab="sim").repetition(2)
    assert replacement(void, 5) == void.replace(seed=6) and void.seed == 2


def test_two_attempts_more_than_asked_are_the_most(scores: Scores, tmp_path: Path) -> None:
    made, results, _ = outcomes(asked(tmp_path, "3"), scores, void=[1, 2, 3, 4, 5])
    assert len(made) == len(results) == 5 and len({run.seed for run in made}) == 1
    made, results, _ = outcomes(asked(tmp_path, "3"), scores, void=[1, 4])
    assert len(made) == 5 and sum(not result.void for result in results) == 3
    assert len(outcomes(asked(tmp_path, "1"), scores, void=[1, 2, 3])[0]) == 3


def test_a_disk_too_small_for_all_runs_is_refused_before_the_first(scores: Scores, tmp_path: Path) -> None:
    with refusal(StoreError, "disk-full"):
        outcomes(asked(tmp_path, "1000", timeline="published", rate="900mbit"), scores, void=[])


def test_a_series_says_how_much_space_it_needs_and_a_screening_one_needs_less(scores: Scores, tmp_path: Path) -> None:
    said = outcomes(asked(tmp_path, "3"), scores, void=[])[2]
    assert re.match(r"3 runs need at most [\d.]+ [MG]B; [\d.]+ [MG]B are free\n", said), said
    recorded, screened = asked(tmp_path, "3", lab="sim"), asked(tmp_path, "3", lab="sim", recorder="none")
    assert screened.needed_bytes < recorded.needed_bytes


def test_a_screening_run_has_no_recording_to_keep(tmp_path: Path) -> None:
    with refusal(OptionsError, "conflict", "--video: a screening run has no recording"):
        asked(tmp_path, None, lab="sim", recorder="none", video="retain-on-failure")
