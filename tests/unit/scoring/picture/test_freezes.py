# SPDX-License-Identifier: Apache-2.0
"""Freezes with known onset and length must be found, and nothing else."""

from __future__ import annotations

import polars as pl
import pytest

from sojourn.scoring.picture import freezes
from sojourn.scoring.picture.frames import unwrap


def series(
    seconds: float, still: list[tuple[float, float]], unread: tuple[float, float] = (0, 0)
) -> tuple[pl.Series, pl.Series]:
    """A 30 fps recording of a 30 fps clip that stands still at (onset, length); unread in one stretch."""
    t = [i / 30 for i in range(int(seconds * 30))]
    shown = [int((x - sum(min(n, max(0.0, x - a)) for a, n in still)) * 30 + 0.2) for x in t]
    frame = [None if unread[0] <= x < unread[1] else f for x, f in zip(t, shown, strict=True)]
    return pl.Series(t), pl.Series(frame, dtype=pl.Int64)


def test_what_moves_is_what_is_left_of_the_windows() -> None:
    still = [
        freezes.Freeze(onset, length, "stall", uncertain=False) for onset, length in ((5, 2), (6, 3), (-1, 2), (18, 9))
    ]
    assert list(freezes.moving(still, [(0, 10), (15, 20)])) == [(1, 5), (9, 10), (15, 18)]
    assert list(freezes.moving(still, [(6, 8)])) == [] and list(freezes.moving([], [(6, 8)])) == [(6, 8)]


def test_known_freezes_are_found_by_both_definitions() -> None:
    changes = freezes.displayed(*series(20, [(3, 0.1), (6, 0.3), (10, 0.75), (14, 2)]))
    found = freezes.stalls(changes)
    # The last frame before a freeze is shown for its own time as well: one frame more than what was put in.
    assert [f.onset for f in found] == pytest.approx([10, 14], abs=0.034)
    assert [f.length for f in found] == pytest.approx([0.75 + 1 / 30, 2 + 1 / 30], abs=0.034)
    webrtc = freezes.webrtc_freezes(changes)
    assert [f.onset for f in webrtc] == pytest.approx([6, 10, 14], abs=0.034)
    assert freezes.frozen_s(found, 0, 20) == pytest.approx(2.75 + 2 / 30, abs=0.034)
    assert freezes.frozen_s(found, 15, 20) == pytest.approx(1, abs=0.04)
    assert freezes.begun(found, 9, 12) == 1 and freezes.begun(found, 9, 20) == 2


def test_smooth_playback_has_none() -> None:
    changes = freezes.displayed(*series(30, []))
    assert freezes.stalls(changes) == freezes.webrtc_freezes(changes) == []
    assert freezes.fps_series(changes, [1, 11, 21]) == pytest.approx([30, 30], abs=0.11)
    assert freezes.speed(changes, 1, 21) == pytest.approx(1)


def test_webrtc_threshold_counts_the_interval_into_its_own_average() -> None:
    # 29 intervals of 40 ms and one of d: freeze when d >= avg + 150 ms, avg = (29*40 + d)/30, so d >= 195.17.
    def found(last: float) -> int:
        t = [i * 0.040 for i in range(32)]
        t.append(t[-1] + last)
        return len(freezes.webrtc_freezes(freezes.displayed(pl.Series(t), pl.Series(range(33)))))

    assert (found(0.1951), found(0.1953)) == (0, 1)


def test_a_freeze_that_lasts_to_the_end_counts() -> None:
    found = freezes.stalls(freezes.displayed(*series(10, [(8, 99)])))
    assert [(f.onset, f.length) for f in found] == [(pytest.approx(8, abs=0.034), pytest.approx(2, abs=0.07))]


def test_playing_behind_a_cover_is_no_freeze() -> None:
    changes = freezes.displayed(*series(20, [], unread=(5, 8)))
    assert freezes.stalls(changes) == freezes.webrtc_freezes(changes) == []
    assert changes["uncertain"].sum() == 1


def test_a_freeze_behind_a_cover_counts_by_what_the_frame_numbers_lack() -> None:
    found = freezes.stalls(freezes.displayed(*series(20, [(6, 1)], unread=(5, 8))))
    assert [(f.length, f.uncertain) for f in found] == [(pytest.approx(1.03, abs=0.034), True)]


def test_a_cover_over_a_still_picture_is_a_certain_freeze() -> None:
    found = freezes.stalls(freezes.displayed(*series(20, [(5, 3)], unread=(5.5, 7.5))))
    assert [(f.onset, f.length, f.uncertain) for f in found] == [
        (pytest.approx(5, abs=0.034), pytest.approx(3, abs=0.034), False)
    ]


def test_an_unread_grab_hides_no_freeze_in_which_frames_were_skipped() -> None:
    """A call's picture jumps to the present after a freeze."""
    t = [i / 60 for i in range(600)]
    shown = [int((5 if 5 <= x < 7 else x) * 30 + 0.2) for x in t]
    for unread in ((), (419, 420), (420,), (420, 421, 422)):
        frame = pl.Series([None if i in unread else f for i, f in enumerate(shown)], dtype=pl.Int64)
        (found,) = freezes.stalls(freezes.displayed(pl.Series(t), frame))
        assert found.onset == pytest.approx(5, abs=0.034) and found.length == pytest.approx(2, abs=0.06), unread


def test_an_unread_picture_hides_no_freeze_of_itself() -> None:
    """A recorder of changes grabs the picture that stands still for 2 s when it appears, and every 0.5 s from then."""
    before, after = ([(n / 31, n) for n in numbers] for numbers in (range(60), range(122, 200)))
    still = [(60 / 31 + n / 2, None) for n in range(4)]
    t, frame = (pl.Series(column) for column in zip(*before, *still, *after, strict=True))
    (found,) = freezes.stalls(freezes.displayed(t, frame, 31))
    assert found.onset == pytest.approx(59 / 31) and found.length == pytest.approx(2, abs=0.15) and found.uncertain


def test_nothing_read_gives_nothing() -> None:
    empty = freezes.displayed(pl.Series([0.0, 1.0]), pl.Series([None, None], dtype=pl.Int64))
    assert empty.is_empty() and freezes.stalls(empty) == []


def test_unwrap_follows_the_loop_and_keeps_seeks() -> None:
    numbers = pl.Series([1797, 1798, -1, 0, 1, 900, 880])
    assert unwrap(numbers, 1800).to_list() == [1797, 1798, None, 1800, 1801, 2700, 2680]
    assert unwrap(pl.Series([-1, -1])).to_list() == [None, None]
