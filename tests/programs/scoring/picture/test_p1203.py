# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.scoring.picture import p1203
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.score import score_run

RATES = {240: 300e3, 360: 700e3, 480: 1.2e6, 720: 4e6}


@pytest.fixture(scope="module")
def scores(recorded: Path) -> Scores:
    return score_run(recorded)


def test_a_phase_alone_is_one_segment(scores: Scores) -> None:
    report = p1203.report(scores, scores.phases[0], RATES, 30)
    assert report["I13"]["segments"] == [
        {"codec": "h264", "start": 0, "duration": 10, "resolution": "1280x720", "bitrate": 4000, "fps": 30}
    ]
    assert report["I23"]["stalling"] == [] and report["I11"]["segments"] == []


@pytest.mark.parametrize("moved_s", [0.1003, -0.3, 0.7])
def test_a_phase_that_begins_within_a_second_is_whole(scores: Scores, moved_s: float) -> None:
    phase = scores.phases[0]
    phase = phase.model_copy(update={"start": phase.start + max(moved_s, 0), "end": phase.end + moved_s})
    (segment,) = p1203.report(scores, phase, RATES, 30)["I13"]["segments"]
    assert (segment["start"], segment["duration"]) == (0, pytest.approx(phase.end - phase.start, abs=1e-3))


def test_stalls_take_no_media_time_and_a_drop_begins_a_segment(scores: Scores) -> None:
    report = p1203.report(scores, scores.phases[1], RATES, 30)
    # 10 s with stalls of 0.75 s and 2 s: at 2 s and, in media time, at 4.25 s; 720p until 4 s, then 360p.
    first, *stalls = report["I23"]["stalling"]
    assert first == [0, 0], "without it, the reference software moves all stalls until the first is initial loading"
    assert [start for start, _ in stalls] == pytest.approx([2, 4.25], abs=0.07)
    assert [length for _, length in stalls] == pytest.approx([0.75, 2], abs=0.07)
    high, low = report["I13"]["segments"]
    assert (high["resolution"], high["bitrate"], low["resolution"], low["bitrate"]) == (
        "1280x720", 4000, "640x360", 700,
    )  # fmt: skip
    assert high["duration"] == pytest.approx(4 - 0.75, abs=0.07) and low["start"] == high["start"] + high["duration"]
    assert low["start"] + low["duration"] == pytest.approx(10 - 2.75, abs=0.1)


def test_without_a_ladder_there_is_no_score(scores: Scores) -> None:
    with pytest.raises(ValueError, match="bit rates"):
        p1203.report(scores, scores.phases[0], {}, 30)


def test_a_stall_that_began_in_the_phase_before_counts_from_the_phase_on(scores: Scores) -> None:
    phase = scores.phases[1]
    stall = scores.freezes[0].model_copy(update={"kind": "stall", "t": phase.start - 1.0, "length": 4.0})
    report = p1203.report(scores.model_copy(update={"freezes": [stall]}), phase, RATES, 30)
    # At 0, it would be initial loading, of which the model counts a third.
    assert report["I23"]["stalling"] == [[0, 0], [0.001, 3]]
    assert sum(it["duration"] for it in report["I13"]["segments"]) == pytest.approx(10 - 3, abs=0.1)


def test_a_stall_at_the_end_is_at_the_last_second_that_has_a_score(scores: Scores) -> None:
    """The reference software ignores a stall behind it, and frames of half a second get no score."""
    phase = scores.phases[0]
    stall = scores.freezes[0].model_copy(update={"kind": "stall", "t": phase.end - 0.5, "length": 0.5})
    report = p1203.report(scores.model_copy(update={"freezes": [stall]}), phase, RATES, 30)
    assert report["I23"]["stalling"] == [[0, 0], [9, 0.5]]
    whole = stall.model_copy(update={"t": phase.end - 1.0, "length": 1.0})
    report = p1203.report(scores.model_copy(update={"freezes": [whole]}), phase, RATES, 30)
    assert report["I23"]["stalling"] == [[0, 0], [9, 1]]
