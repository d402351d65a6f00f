# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import cv2
import numpy as np
import pytest

from benchmarks.recordings import leaves
from sojourn.scoring.picture.blind.resolution import classes, follow, mirrors, video_lines

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


@pytest.mark.parametrize(("width", "lines", "shown"), [(634, 357, 357), (1137, 640, 640), (1257, 707, 707),
                                                        (1280, 720, 536), (854, 480, 357)])  # fmt: skip
@pytest.mark.parametrize("height", [240, 360, 480])
def test_odd_sizes_and_pictures_without_their_black_bars(height: int, width: int, lines: int, shown: int) -> None:
    """The recorder's encoder is part of it: JPEG stands in for what it takes away."""
    camera = leaves(np.random.default_rng(3), 720, 1280)
    sent = cv2.resize(camera, (2 * round(height * 8 / 9), height), interpolation=cv2.INTER_AREA)
    picture = cv2.resize(sent, (width, lines), interpolation=cv2.INTER_LINEAR)[(lines - shown) // 2 :][:shown]
    kept = cv2.imdecode(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 90])[1], cv2.IMREAD_GRAYSCALE)
    whole = video_lines(*kept.shape)
    assert whole == lines
    rungs = classes(LADDER, whole)
    told = follow(np.array([mirrors(kept, rungs)] * 4), rungs, whole)
    assert set(told) == {min(height, rungs[-1])}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", [(720, 1280), (540, 960), (100, 50), (50, 200)])
def test_rounding_in_a_picture_that_is_the_same_all_the_way_down_tells_no_rung(shape: tuple[int, int]) -> None:
    columns = np.random.default_rng(1).integers(0, 256, shape[1])
    for picture in (np.broadcast_to(columns, shape).astype(np.uint8), np.zeros(shape, np.uint8)):
        assert np.abs(mirrors(picture, classes(LADDER, video_lines(*shape)))).max() < 0.15
