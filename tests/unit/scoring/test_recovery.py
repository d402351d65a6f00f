# SPDX-License-Identifier: Apache-2.0
"""Recovery: the time until picture and goodput are as they are alone."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from sojourn.scoring.picture.freezes import Freeze
from sojourn.scoring.picture.rendition import Segment
from sojourn.scoring.recovery import goodput_s, picture_s

WINDOW = (100.0, 120.0)


def at(*heights: tuple[float, float, int]) -> list[Segment]:
    return [Segment(*one) for one in heights]


@pytest.mark.parametrize(
    ("segments", "seconds"),
    [
        (at((0, 200, 720)), 0),
        (at((0, 90, 720), (90, 108, 480), (108, 200, 720)), 8),
        (at((0, 104, 480), (104, 109, 720), (109, 112, 480), (112, 200, 720)), 12),
        (at((0, 116, 480), (116, 200, 720)), inf),  # 4 s are left
        (at((0, 115, 480), (115, 200, 720)), 15),
        (at((0, 200, 480)), inf),
        (at((0, 100, 480), (100, 200, 1080)), 0),
        (at((0, 110, 720), (120, 200, 480)), 0),  # what comes after the solo phase
    ],
)
def test_the_picture_recovers_when_it_keeps_its_height(segments: list[Segment], seconds: float) -> None:
    assert picture_s(segments, (), WINDOW, 720) == seconds


def test_a_stall_is_no_recovery() -> None:
    full = at((0, 200, 720))
    assert picture_s(full, [Freeze(101, 4, "stall", False)], WINDOW, 720) == 5
    assert picture_s(full, [Freeze(118, 9, "stall", False)], WINDOW, 720) == inf
    assert picture_s(full, [Freeze(90, 9, "stall", False), Freeze(121, 3, "stall", False)], WINDOW, 720) == 0


def test_goodput_recovers_when_five_seconds_have_it() -> None:
    assert goodput_s(np.array([0.0, 0, 1, 2, 3, 3, 3, 3, 3, 3]), 3.0) == 4
    assert goodput_s(np.array([9.0, 9, 0, 0, 0, 0]), 3.0) == 0, "a player fetches in bursts"
    assert goodput_s(np.array([1.0] * 20), 3.0) == inf and goodput_s(np.array([9.0] * 4), 3.0) == inf
    assert goodput_s(np.array([0.0] * 3 + [2.86] * 6), 3.0) == 3, "95 % of it"
