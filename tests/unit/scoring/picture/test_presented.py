# SPDX-License-Identifier: Apache-2.0
"""The player's log of presented frames: as a picture of its own, and next to a recording of the same screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from sojourn.scoring.gates.picture import every_frame_logged, log_agrees
from sojourn.scoring.picture import freezes, rendition
from sojourn.scoring.picture.frames import agreement, presented
from sojourn.scoring.validity import SIMULATED

FPS, LADDER = 30.0, (240, 720)
#: Frames 100 to 129 with 720 lines, a stall of 2 s, frames 130 to 159 with 240.
_TIMES = [10 + n / FPS for n in range(30)] + [13 + n / FPS for n in range(30)]


def line(t: float, frame: int, height: int, count: int) -> dict[str, Any]:
    return {"t": t, "event": "frame", "detail": (frame / FPS, height, count)}


def log(times: Sequence[float] = _TIMES) -> list[dict[str, Any]]:
    lines = [line(t, 100 + n, 720 if n < 30 else 240, n + 1) for n, t in enumerate(times)]
    return [{"t": 9.0}, *lines, {"t": 14.5}]


def recording(late: float = 0.01) -> pl.DataFrame:
    """60 grabs per second of the same screen, its strip counted from another frame on."""
    rows = []
    for n, t in enumerate(_TIMES):
        rows += [(t + late + grab / 60, 7 + n, int(n < 30)) for grab in range(2)]
    return pl.DataFrame(rows, ["t", "frame", "rendition"], orient="row")


def test_the_log_has_heights_and_stalls_of_what_was_shown() -> None:
    shown = presented(log(), FPS)
    assert shown["frame"].to_list() == [*range(100, 160), 159] and shown["t"][-1] == 14.5
    assert [(s.start, s.end, s.height) for s in rendition.from_player(shown.to_dicts())] == [
        (10, 13, 720),
        (13, 14.5, 240),
    ]
    stalls = freezes.stalls(freezes.displayed(shown["t"], shown["frame"], FPS))
    last = _TIMES[-1]
    assert [(s.onset, s.length) for s in stalls] == [(_TIMES[29], pytest.approx(13 - _TIMES[29])), (last, 14.5 - last)]
    assert presented([{"t": 1.0}], FPS).is_empty()


def test_a_recording_of_the_same_screen_agrees() -> None:
    logged = presented(log(), FPS)
    assert agreement(recording(), logged, LADDER, 0.05) == 1
    gate = log_agrees(recording(), logged, LADDER, SIMULATED)
    assert gate.ok and gate.measured == "100.00% of the recorded frames"


@pytest.mark.parametrize(
    ("lines", "share"),
    [
        pytest.param(log([t + 0.1 * (n >= 30) for n, t in enumerate(_TIMES)]), 0.5, id="half is late by 0.1 s"),
        pytest.param(log()[:31], 0.5, id="half is missing"),
        pytest.param(
            [it | {"detail": (it["detail"][0], 480, 0)} if it.get("event") else it for it in log()],
            0,
            id="other height",
        ),
    ],
)
def test_a_log_that_differs_fails_the_gate(lines: list[dict[str, Any]], share: float) -> None:
    logged = presented(lines, FPS)
    assert agreement(recording(), logged, LADDER, 0.05) == share
    assert not log_agrees(recording(), logged, LADDER, SIMULATED).ok


def test_nothing_in_common_is_no_agreement() -> None:
    assert agreement(recording(), presented([], FPS), LADDER, 0.05) is None
    assert not log_agrees(recording(), presented([], FPS), LADDER, SIMULATED).ok


def test_a_frame_that_the_log_misses_fails_its_gate() -> None:
    def judged(lines: list[dict[str, Any]]) -> tuple[bool, str]:
        gate = every_frame_logged(presented(lines, FPS), sampled, positions)
        return gate.ok, gate.measured

    sampled = [9.5 + n / 4 for n in range(20)]
    shown = [sum(t <= at for t in _TIMES) / FPS for at in sampled]
    positions = [100 / FPS + it for it in shown]
    assert judged(log()) == (True, "0 missing")
    assert judged([it for it in log() if it["t"] != _TIMES[5]]) == (False, "1 missing")
    # The callback dies while the film goes on: what the player counts cannot tell.
    assert judged([it for it in log() if it["t"] < 13.2 or "event" not in it]) == (False, "2 missing")
    assert not judged(log()[:2])[0] and not judged([*log()[:2], log()[-1]])[0]
    backwards = [it | {"detail": (*it["detail"][:2], 61 - it["detail"][2])} if it.get("event") else it for it in log()]
    assert not judged(backwards)[0]
    assert not judged([])[0] and not every_frame_logged(None, sampled, positions).ok


def test_a_player_that_changes_its_speed_may_miss_few_frames_and_jumps_to_the_live_edge() -> None:
    logged = presented([it for it in log() if it["t"] != _TIMES[5]], FPS)
    before = [5.0, 5.1, 5.2, 5.3]  # and no frame; then it jumps
    assert not every_frame_logged(logged, before, [0, 0, 10, 10], 0.01).ok
    assert every_frame_logged(logged, before, [0, 0, 10, 10], 0.05).measured == "1 missing"
    allowed = every_frame_logged(logged, before, [0, 0, 10, 10], 0.05)
    assert allowed.ok and allowed.limit == "at most 2 missing"
    # It plays without a frame in the log.
    assert every_frame_logged(logged, before, [0, 0, 0.2, 0.4], 0.01).measured == "3 missing"
