# SPDX-License-Identifier: Apache-2.0
"""One pass over a recording: the motion of the video's picture from frame to frame, and samples of its resolution.

Two measures per frame, both over blocks of 16 px (a macroblock of the recorder's encoder), without spinner, controls
and captions:

- `moved`: mean change of pixels beyond 8 levels, over the 1 % of blocks that changed most. Moving edges change
  pixels by tens of levels; when the recorder's encoder refines a still picture, as it does for a third of a second
  after every change, it changes them by half its quantiser's step, about 5.
- `touched`: share of blocks that changed at all. It is exactly 0 once the encoder has settled on a still screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from sojourn.scoring.picture.blind import place, resolution
from sojourn.scoring.picture.recording import RecordingError, decode, frame_list, frame_times, picture_size

BLOCK = 16
LOOKS_PER_S = 4  # looks at the resolution
_BEYOND = 8  # levels
_LONG_S = 60.0  # length from which key frames (one in 5 s) suffice to find the video
_FEWEST = 12
_TABLE = np.clip((np.arange(256) - _BEYOND) * 16, 0, 255).astype(np.uint8)


@dataclass(frozen=True)
class Motion:
    """`t` in s from the first frame, `moved` in levels, `touched` 0 to 1, one per frame; `key`: a key frame.

    `look_t` (s) and `looks`, rows of `resolution.mirrors` for `heights`, several a second.
    """

    t: npt.NDArray[np.float64]
    moved: npt.NDArray[np.float64]
    touched: npt.NDArray[np.float64]
    key: npt.NDArray[np.bool_]
    heights: list[int]
    look_t: npt.NDArray[np.float64]
    looks: npt.NDArray[np.float64]


def locate(video: Path) -> place.PictureArea | None:
    """Return the area of the video in a recording; None if nothing moves. Raises RecordingError."""
    times = frame_times(video)
    width, height = picture_size(video)
    if times[-1] - times[0] >= _LONG_S:
        looks = decode(video, "format=gray", width, height, "-skip_frame", "nokey")
    else:
        every = max(1, len(times) // max(_FEWEST, round(2 * (times[-1] - times[0]))))
        looks = decode(video, f"select=not(mod(n\\,{every})),format=gray", width, height)
    return place.find(list(looks))


def watch(video: Path, at: place.PictureArea) -> Motion:
    """Read the whole recording. Raises RecordingError if ffmpeg cannot read it."""
    listed = frame_list(video)
    times, keys = np.array([t for t, _ in listed]), np.array([key for _, key in listed])
    heights = resolution.classes(resolution.LADDER, resolution.video_lines(at.height, at.width))
    kept = _kept(at)
    most = max(1, int(kept.sum()) // 100)
    moved, touched = np.zeros(len(times)), np.zeros(len(times))
    looks: list[npt.NDArray[np.float64]] = []
    look_t: list[float] = []
    before: npt.NDArray[np.uint8] | None = None
    rows, columns = (size * BLOCK for size in kept.shape)
    crop = f"format=gray,crop={at.width}:{at.height}:{at.x}:{at.y}:exact=1"
    count = 0
    for picture in decode(video, crop, at.width, at.height):
        if count == len(times):
            break
        if before is not None:
            change = cv2.absdiff(picture, before)[:rows, :columns]
            if change.any():
                blocks = _blocks(cv2.LUT(change, _TABLE), kept)
                moved[count] = np.partition(blocks, -most)[-most:].mean() / 16
                touched[count] = (_blocks(cv2.convertScaleAbs(change, alpha=16), kept) >= 2).mean()
        if not look_t or times[count] - look_t[-1] >= 0.999 / LOOKS_PER_S:
            look_t.append(times[count])
            looks.append(resolution.mirrors(picture, heights))
        before, count = picture, count + 1
    if not count:
        raise RecordingError(f"recording {video} cannot be read: no frame of it can be decoded")
    return Motion(
        times[:count] - times[0], moved[:count], touched[:count], keys[:count], heights,
        np.array(look_t) - times[0], np.array(looks),
    )  # fmt: skip


def _kept(at: place.PictureArea) -> npt.NDArray[np.bool_]:
    """Return the examined blocks: not the middle (spinner), not the lowest lines (controls, captions)."""
    rows, columns = at.height // BLOCK, at.width // BLOCK
    kept = np.ones((rows, columns), np.bool_)
    kept[int(place.CLEAR * rows) :] = False
    half = place.middle(at.height, at.width)
    y, x = at.height // 2, at.width // 2
    kept[(y - half) // BLOCK : -(-(y + half) // BLOCK), (x - half) // BLOCK : -(-(x + half) // BLOCK)] = False
    return kept


def _blocks(change: npt.NDArray[Any], kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    rows, columns = kept.shape
    means = cv2.resize(change, (columns, rows), interpolation=cv2.INTER_AREA)
    return np.asarray(means[kept], np.uint8)
