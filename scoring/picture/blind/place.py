# SPDX-License-Identifier: Apache-2.0
"""The area of the video on the screen: the largest region that changes over the recording, with straight edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

_CHANGED = 12  # levels between two samples of a pixel: more than the recorder's encoder causes in a still one
_SHARE = 0.15  # of the samples in which a pixel of the video must change
_CLOSE = 25  # px: still parts of the picture this narrow belong to it
_EDGE = 24  # px around the region's border in which to search for its edge
_SMALLEST = 0.02  # of the screen
CLEAR = 0.78
"""The share of the video's lines, from the top, above captions and controls."""


class PictureArea(NamedTuple):
    """A rectangle on the screen in px; `x`, `y` is its upper left corner."""

    x: int
    y: int
    width: int
    height: int


def middle(rows: int, columns: int) -> int:
    """Return half the side (px) of the central square in which a spinner turns, for a video of this size."""
    return min(max(48, rows // 10), rows // 4, columns // 4)


def reported_area(places: Iterable[Sequence[int]], seen: PictureArea, screen: tuple[int, int]) -> PictureArea:
    """Return the area that the page reported most often, if the moving area `seen` is inside; otherwise `seen`.

    `screen` is the recording's width and height: anything outside is cut off.
    """
    most = Counter(map(tuple, places)).most_common(1)
    if not most:
        return seen
    x, y, width, height = most[0][0]
    left, top, right, bottom = max(x, 0), max(y, 0), min(x + width, screen[0]), min(y + height, screen[1])
    inside = (
        left - _EDGE <= seen.x
        and top - _EDGE <= seen.y
        and seen.x + seen.width <= right + _EDGE
        and seen.y + seen.height <= bottom + _EDGE
    )
    return PictureArea(left, top, right - left, bottom - top) if inside else seen


def find(looks: Sequence[npt.NDArray[np.uint8]]) -> PictureArea | None:
    """Return the video's area from grey pictures (rows, columns) of the screen, seconds apart; None without motion."""
    if len(looks) < 2:
        return None
    share = np.zeros(looks[0].shape, np.float32)
    for before, after in pairwise(looks):
        share += cv2.absdiff(before, after) > _CHANGED
    share /= len(looks) - 1
    moving = (share >= max(_SHARE, 1.5 / (len(looks) - 1))).astype(np.uint8)
    closed = cv2.morphologyEx(moving, cv2.MORPH_CLOSE, np.ones((_CLOSE, _CLOSE), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(closed)
    if count < 2:
        return None
    largest = 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))
    if stats[largest, cv2.CC_STAT_AREA] < _SMALLEST * share.size:
        return None
    inside = labels == largest
    # Changing text next to the video may touch it; lines of the video change over their whole length.
    rows, columns = (_run(inside.mean(axis) >= 0.3 * inside.mean(axis).max()) for axis in (1, 0))
    top, bottom = (
        _edge(share[:, columns[0] : columns[1]].mean(1), at, way) for at, way in zip(rows, (1, -1), strict=True)
    )
    left, right = (_edge(share[rows[0] : rows[1]].mean(0), at, way) for at, way in zip(columns, (1, -1), strict=True))
    return PictureArea(left, top, right - left, bottom - top)


def _run(good: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Return the first index at which `good` holds, and one past the last."""
    indices = np.flatnonzero(good)
    return int(indices[0]), int(indices[-1]) + 1


def _edge(profile: npt.NDArray[np.float32], near: int, way: int) -> int:
    """Return where a profile steps up most (`way` 1) or down (-1), around `near`; the screen's edges count as steps."""
    padded = np.pad(profile, 1)
    steps = np.diff(padded) * way  # steps[i] lies before line i
    low, high = max(0, near - _EDGE), min(len(profile), near + _EDGE)
    return low + int(np.argmax(steps[low : high + 1]))
