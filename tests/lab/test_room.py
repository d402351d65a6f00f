# SPDX-License-Identifier: Apache-2.0
"""A room through a simulated lab: all parties are shown, layers follow the path, and a seed repeats to the byte."""

from __future__ import annotations

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


@pytest.mark.parametrize(("parties", "layers"), [(2, "simulcast"), (6, "simulcast"), (4, "svc")])
def test_all_parties_are_shown_within_a_second_of_joining_in_their_best_layer(
    tmp_path: Path, parties: int, layers: str
) -> None:
    shown = room(tmp_path, "--rate=50mbit", "--timeline=solo:6", f"--parties={parties}", f"--layers={layers}")
    assert [*shown] == [*range(1, parties + 1)]
    for one in shown.values():
        assert one.first_picture_s is not None and 0 < one.first_picture_s < 1
        (phase,) = one.phases
        assert phase.lowest_height == 720 and phase.frame_p50_ms is not None and 10 < phase.frame_p50_ms < 100
        # 31 pictures per second on a screen with 60: two may be due at the same refresh.
        assert phase.frames_in_time is not None and phase.frames_in_time > 0.88 and phase.stalls == 0
    for one in (shown[1], shown[2]):
        (phase,) = one.phases
        assert phase.ear_p50_ms is not None and 10 < phase.ear_p50_ms < 100 and phase.ear_loss == 0
        assert phase.lip_sync_p50_ms is not None and abs(phase.lip_sync_p50_ms) < 45
        assert sum(end - start for start, end in one.speaks) > 3
    for party in range(3, parties + 1):
        assert shown[party].phases[0].ear_p50_ms is None and not shown[party].speaks


def test_a_room_without_sound_is_silent(tmp_path: Path) -> None:
    shown = room(tmp_path, "--rate=50mbit", "--timeline=solo:6", "--parties=2", "--call-sound=off")
    assert all(one.phases[0].ear_gap_share is None and not one.speaks for one in shown.values())


def test_a_seed_repeats_to_the_byte(tmp_path: Path) -> None:
    paths = [run(tmp_path / name, "--rate=50mbit", "--timeline=solo:5") for name in "ab"]
    names = (
        "client.pcapng.zst",
        "server.pcapng.zst",
        "scores.json",
        "player.jsonl",
        "far-3/player.jsonl",
        "far-4/player.jsonl",
        "sound.flac",
        "far/sound.flac",
    )
    for name in names:
        assert paths[0].joinpath(name).read_bytes() == paths[1].joinpath(name).read_bytes(), name


def test_layers_fall_with_the_rate_and_climb_again(tmp_path: Path) -> None:
    shown = room(tmp_path, "--rate=8mbit,6s:1500kbit,16s:8mbit", "--rate-up=8mbit", "--timeline=solo:76")
    for party in (2, 3, 4):
        fall, climb = shown[party].steps
        assert fall.first_drop_s is not None and fall.first_drop_s < 10
        assert fall.lowest_height is not None and fall.lowest_height < 720
        assert climb.before_height == 720 and climb.recovery_s is not None and 1 < climb.recovery_s < 50
    # The way up has its rate throughout; what the client's sender knows of it came through the dip.
    assert not shown[1].steps and shown[1].renditions[-1].after == 720
    (phase,) = shown[2].phases
    assert phase.neteq_shortened_share is not None and phase.neteq_shortened_share > 0.005, "pauses shorten the buffer"


def test_a_throttled_uplink_harms_that_partys_picture_alone(tmp_path: Path) -> None:
    shown = room(tmp_path, "--rate=50mbit", "--rate-up=8mbit,6s:400kbit", "--timeline=solo:16")
    assert shown[1].phases[0].lowest_height is not None and shown[1].phases[0].lowest_height < 720
    assert shown[1].steps[0].first_drop_s is not None
    for party in (2, 3, 4):
        (phase,) = shown[party].phases
        assert phase.lowest_height == 720 and phase.frames_in_time is not None and phase.frames_in_time > 0.99
