# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import cv2
import numpy as np
import pytest

from benchmarks.recordings import leaves
from scoring.blind.resolution import classes, follow, mirrors

LADDER = (240, 360, 480, 720)


def looks(height: int, lines: int, seed: int = 3) -> np.ndarray:
    """Mirrors of a natural picture of so many lines, shown on `lines` as Chromium shows it."""
    camera = leaves(np.random.default_rng(seed), 720, 1280)
    sent = cv2.resize(camera, (2 * round(height * 8 / 9), height), interpolation=cv2.INTER_AREA)
    shown = cv2.resize(sent, (2 * round(lines * 8 / 9), lines), interpolation=cv2.INTER_LINEAR)
    return mirrors(shown, classes(LADDER, lines))


@pytest.mark.parametrize(("height", "lines"), [(240, 720), (360, 720), (480, 720), (720, 720), (240, 540), (360, 540),
                                               (480, 540), (720, 540), (240, 480), (360, 480), (480, 480)])  # fmt: skip
def test_the_rendition_is_told_by_its_mirror(height: int, lines: int) -> None:
    rungs = classes(LADDER, lines)
    assert set(follow(np.array([looks(height, lines)] * 4), rungs, lines)) == {min(height, rungs[-1])}


def test_a_change_is_followed_and_a_single_odd_look_is_not() -> None:
    high, low = looks(720, 720), looks(240, 720)
    told = follow(np.array([high] * 8 + [low] * 8), classes(LADDER, 720), 720)
    assert told == [720] * 8 + [240] * 8
    weak = high - np.array([0.2, 0, 0, 0])
    assert set(follow(np.array([high] * 8 + [weak] + [high] * 8), classes(LADDER, 720), 720)) == {720}


def test_what_is_shown_whole_is_told_by_the_next_rung() -> None:
    assert classes(LADDER, 540) == [240, 360, 480, 720] and classes(LADDER, 480) == [240, 360, 480]
    assert follow(np.empty((0, 4)), [240, 360, 480, 720], 720) == []
