# SPDX-License-Identifier: Apache-2.0
"""The tables of calls and rooms: by queue and contender, and after a dip of the rate."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import pytest

from sojourn.harness.report.call_table import FIGURES, call_table, dip_table, victim
from sojourn.harness.report.experiments import Experiment
from sojourn.harness.store.loaded import VictimRun
from sojourn.scoring.schema.scores import LayerStep, PartyScores, Scores
from sojourn.scoring.statistics.summary import summarise


def experiment(*runs: Scores) -> Experiment:
    """Return an experiment with runs of these scores, named by number."""
    named = {str(number): scores for number, scores in enumerate(runs)}
    manifest: Any = None
    loaded = tuple(VictimRun(Path(name), {}, manifest, scores) for name, scores in named.items())
    return Experiment("test", loaded, summarise(named), tuple(named))


@pytest.fixture
def call(scores: Scores) -> Scores:
    """A call whose sound is 50 ms late alone and 120 ms with Prague, in dualpi2."""
    assert scores.baseline
    phases = [phase.model_copy(update={"ear_p50_ms": 120.0 if phase.contender else 50.0}) for phase in scores.phases]
    baseline = scores.baseline.model_copy(update={"ear_p50_ms": 50.0})
    lab = scores.lab | {"qdisc_down": "dualpi2"}
    return scores.model_copy(update={"phases": phases, "baseline": baseline, "far": phases, "lab": lab})


def dip(before_s: float, recovery_s: float, height: int = 180) -> list[LayerStep]:
    """Return the steps of a dip to 0.5 Mbit/s after which the run watches the picture for 60 s."""
    return [
        LayerStep(
            t=10, direction="down", mbps=0.5, seconds=before_s, first_drop_s=2, lowest_height=height, lowest_fps=7
        ),
        LayerStep(
            t=40, direction="down", mbps=8, seconds=60, first_drop_s=None, lowest_height=360, before_height=720,
            recovery_s=recovery_s,
        ),
    ]  # fmt: skip


def party(number: int, steps: list[LayerStep]) -> PartyScores:
    return PartyScores(party=number, first_picture_s=0.2, phases=[], renditions=[], freezes=[], steps=steps)


def test_a_row_is_a_victim_in_a_queue_alone_or_with_a_contender(call: Scores, scores: Scores) -> None:
    room = call.model_copy(update={"parties": [party(1, []), party(2, [])]})
    late = call.model_copy(update={"phases": [phase.model_copy(update={"ear_p50_ms": 140.0}) for phase in call.phases]})
    lines = call_table([experiment(room), experiment(call, late), experiment(scores)]).splitlines()
    assert len(lines) == 2 + 4 and lines[0].count("|") == 5 + len(FIGURES)
    heads = [[cell.strip() for cell in line.split("|")][1:5] for line in lines[2:]]
    assert heads[0] == ["`dualpi2`", "call", "alone", "50"]
    assert heads[1][:3] == ["`dualpi2`", "call", "prague"] and heads[1][3].startswith("130 (")
    assert [head[1:3] for head in heads[2:]] == [["room of 2", "alone"], ["room of 2", "prague"]]
    assert heads[3][3] == "120"


def test_an_invalid_run_has_no_row(call: Scores) -> None:
    invalid = call.model_copy(update={"validity": call.validity.model_copy(update={"valid": False, "reasons": ["no"]})})
    assert len(call_table([experiment(invalid)]).splitlines()) == 2


def test_a_dip_has_the_times_of_all_pictures_and_bounds_those_that_did_not_recover(call: Scores) -> None:
    one = call.model_copy(update={"parties": [party(1, []), party(2, dip(30, 12.5)), party(3, dip(30, 20, 90))]})
    other = call.model_copy(update={"parties": [party(1, []), party(2, dip(30, inf)), party(3, dip(30, 30))]})
    *_, row = dip_table([experiment(one, other)]).splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == ["room of 3", "down", "0.5", "30", "720p", "90p", "7", "4", "3", "25", "12.50", "> 50"]
    assert len(dip_table([experiment(call)]).splitlines()) == 2
    # One that took longer than another was watched for.
    mixed = call.model_copy(update={"parties": [party(1, []), party(2, dip(30, inf)), party(3, dip(30, 70, 90))]})
    assert dip_table([experiment(mixed)]).splitlines()[-1].strip("| ").endswith("≥ 70")


@pytest.mark.parametrize(
    ("times", "median"),
    [([20, 30, 40, inf, inf, inf], "> 45"), ([20, 30, 40, 45, inf, inf], "42.50"), ([inf, inf], "> 50")],
)
def test_a_median_of_which_not_all_is_known_is_the_least_possible(
    call: Scores, times: list[float], median: str
) -> None:
    runs = [call.model_copy(update={"parties": [party(1, []), party(2, dip(30, time))]}) for time in times]
    assert dip_table([experiment(*runs)]).splitlines()[-1].split("|")[10].strip() == median


@pytest.mark.parametrize(("height", "shown"), [(0, "none"), (90, "90p")])
def test_a_picture_that_was_taken_away_is_no_picture_with_few_lines(call: Scores, height: int, shown: str) -> None:
    one = call.model_copy(update={"parties": [party(2, dip(30, 12.5, height)), party(3, dip(30, 20))]})
    assert dip_table([experiment(one)]).splitlines()[-1].split("|")[6].strip() == shown


def test_shares_are_percentages_and_harm_is_that_of_each_run(call: Scores) -> None:
    phases = [phase.model_copy(update={"ear_gap_share": 0.004}) for phase in call.phases]
    lost = [phase.model_copy(update={"ear_p50_ms": inf}) for phase in phases]
    runs = [call.model_copy(update={"phases": phases}), call.model_copy(update={"phases": lost}), call]
    heads, _, alone, prague = (
        [cell.strip() for cell in it.split("|")] for it in call_table([experiment(*runs)]).splitlines()
    )
    assert heads[6] == "gaps in the sound (%)" and prague[6] == "0.40 (of 2)"
    assert prague[4] == "median 120 (120 to ∞)"
    assert alone[-2] == "–" and heads[-2] == "harm to these frames" and prague[-2] == "0.78"


def test_a_victim_is_a_call_or_a_room_of_its_parties(call: Scores) -> None:
    assert victim(call) == "call"
    assert victim(call.model_copy(update={"parties": [party(n, []) for n in (1, 2, 3, 4)]})) == "room of 4"
