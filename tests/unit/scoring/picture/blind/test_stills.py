# SPDX-License-Identifier: Apache-2.0
"""Motion as it was measured in recordings: what moves, and how a recorder's encoder goes on after it has stopped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sojourn.scoring.picture.blind.motion import Motion
from sojourn.scoring.picture.blind.stills import new_pictures, stills

FPS = 60
SETTLING = [0.9, 0.6, 0.4, 0.3, 0.2, 0.1]  # levels that the encoder changes after the last new picture


def motion(parts: list[tuple[str, float]]) -> Motion:
    """From (what, s): "plays" (30 pictures a second that move by 5 levels), "stands", "cut" (a single picture)."""
    moved: list[float] = []
    touched: list[float] = []
    for what, seconds in parts:
        if what == "cut":
            moved.append(40.0)
            touched.append(1.0)
            continue
        count = round(seconds * FPS)
        if what == "plays":
            moved += [5.0 if n % 2 else 0.3 for n in range(count)]
            touched += [0.4] * count
        else:
            moved += (SETTLING + [0.0] * count)[:count]
            touched += ([0.5] * 6 + [0.0] * count)[:count]
    t = np.arange(len(moved)) / FPS
    none = np.empty(0)
    return Motion(t, np.array(moved), np.array(touched), np.arange(len(t)) % 300 == 0, [], none, none)


def log(shown: list[tuple[float, float]]) -> list[dict[str, Any]]:
    """The player's samples, four a second, from (t, frames shown until then), linear in between."""
    times, counts = zip(*shown, strict=True)
    at = np.arange(0, times[-1], 0.25)
    found = np.interp(at, times, counts)
    return [{"t": float(t), "totalFrames": int(n), "droppedFrames": 0} for t, n in zip(at, found, strict=True)]


STALL = motion([("plays", 3), ("stands", 1.5), ("plays", 3)])
SLIDE = motion([("plays", 3), ("cut", 0), ("stands", 2), ("cut", 0), ("plays", 3)])


def test_settling_is_no_new_picture() -> None:
    assert new_pictures(STALL).sum() == pytest.approx(181, abs=2)


def test_motion_that_stops_in_mid_scene_is_a_freeze() -> None:
    (found,) = stills(STALL, 1000.0)
    assert found.frozen is True
    assert (found.onset, found.length) == (pytest.approx(1003, abs=0.04), pytest.approx(1.5, abs=0.06))


def test_a_still_scene_between_cuts_is_undecided_until_the_player_is_heard() -> None:
    (alone,) = stills(SLIDE, 0.0)
    assert alone.frozen is None and alone.length == pytest.approx(2, abs=0.05)
    (played,) = stills(SLIDE, 0.0, log([(0, 0), (8, 240)]))
    assert played.frozen is False
    (frozen,) = stills(SLIDE, 0.0, log([(0, 0), (3, 90), (5, 90), (8, 180)]))
    assert frozen.frozen is True and frozen.onset == pytest.approx(3, abs=0.06)


def test_a_freeze_inside_a_still_scene_is_the_players_to_tell() -> None:
    lines = log([(0, 0), (3.6, 108), (4.4, 108), (8, 216)])
    (found,) = stills(SLIDE, 0.0, lines)
    assert found.frozen is True
    assert (found.onset, found.length) == (pytest.approx(3.6, abs=0.07), pytest.approx(0.8, abs=0.1))
    lines += [{"t": 3.6 + 1 / 30, "event": "waiting"}, {"t": 4.4, "event": "playing"}]
    (exact,) = stills(SLIDE, 0.0, sorted(lines, key=lambda line: float(line["t"])))
    assert (exact.onset, exact.length) == (pytest.approx(3.6, abs=4e-3), pytest.approx(0.8, abs=4e-3))


def test_a_freeze_at_either_end_of_the_recording_is_found() -> None:
    (last,) = stills(motion([("plays", 3), ("stands", 2)]), 0.0, log([(0, 0), (3, 90), (5, 90)]))
    assert last.frozen is True and last.onset + last.length == pytest.approx(5, abs=0.05)
    (first,) = stills(motion([("stands", 2), ("plays", 3)]), 0.0)
    assert first.frozen is True and first.length == pytest.approx(2, abs=0.1)


def test_a_player_that_counts_nothing_is_no_witness() -> None:
    silent = [{"t": t / 4, "totalFrames": 0, "droppedFrames": 0} for t in range(30)]
    assert stills(SLIDE, 0.0, silent) == stills(SLIDE, 0.0)
