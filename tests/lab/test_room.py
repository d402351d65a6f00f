# SPDX-License-Identifier: Apache-2.0
"""A room through a simulated lab: all parties are shown, layers follow the path, and a seed repeats to the byte."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

import pytest

from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import PartyScores
from tests.lab.main_job import run_harm

pytestmark = [pytest.mark.lab, pytest.mark.nightly]

OPTIONS = "--service=room", "--qdisc=fq_codel flows 1", "--rtt=20ms", "--exact", "--seed=1", "--rpm=off"


def run(folder: Path, *options: str) -> Path:
    done = run_harm(folder, *OPTIONS, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = RunStore(folder).runs()
    return path


def room(folder: Path, *options: str) -> dict[int, PartyScores]:
    """Return the scores of every party of a valid room, by its number."""
    scores = load_run(run(folder, *options)).scores
    assert scores.validity.valid, scores.validity.reasons
    return {one.party: one for one in scores.parties}


@pytest.mark.parametrize("parties", [2, 6])
def test_all_parties_are_shown_within_a_second_of_joining_in_their_best_layer(tmp_path: Path, parties: int) -> None:
    shown = room(tmp_path, "--rate=50mbit", "--timeline=solo:6", f"--parties={parties}")
    assert [*shown] == [*range(1, parties + 1)]
    for one in shown.values():
        assert one.first_picture_s is not None and 0 < one.first_picture_s < 1
        (phase,) = one.phases
        assert phase.lowest_height == 720 and phase.fps == pytest.approx(31, abs=0.5)
        assert phase.frames_in_time == 1 and phase.frame_p50_ms is not None and 10 < phase.frame_p50_ms < 100


def test_a_seed_repeats_to_the_byte(tmp_path: Path) -> None:
    paths = [run(tmp_path / name, "--rate=50mbit", "--timeline=solo:5") for name in "ab"]
    names = (
        "client.pcapng.zst",
        "server.pcapng.zst",
        "scores.json",
        "player.jsonl",
        "far-3/player.jsonl",
        "far-4/player.jsonl",
    )
    for name in names:
        assert paths[0].joinpath(name).read_bytes() == paths[1].joinpath(name).read_bytes(), name


def test_layers_fall_with_the_rate_and_climb_again(tmp_path: Path) -> None:
    shown = room(tmp_path, "--rate=8mbit,6s:1500kbit,20s:8mbit", "--rate-up=8mbit", "--timeline=solo:50")
    for party in (2, 3, 4):
        fall, climb = shown[party].steps
        assert fall.first_drop_s is not None and fall.first_drop_s < 8
        assert fall.lowest_height is not None and fall.lowest_height < 720
        assert climb.full_after_s is not None and isfinite(climb.full_after_s)
    assert shown[1].phases[0].lowest_height == 720, "the way up has its rate throughout"


def test_a_throttled_uplink_harms_that_partys_picture_alone(tmp_path: Path) -> None:
    shown = room(tmp_path, "--rate=50mbit", "--rate-up=8mbit,6s:400kbit", "--timeline=solo:16")
    assert shown[1].phases[0].lowest_height is not None and shown[1].phases[0].lowest_height < 720
    assert shown[1].steps[0].first_drop_s is not None
    for party in (2, 3, 4):
        (phase,) = shown[party].phases
        assert phase.lowest_height == 720 and phase.frames_in_time is not None and phase.frames_in_time > 0.99
