# SPDX-License-Identifier: Apache-2.0
"""What a caller's camera sees: a calm scene as y4m for Chromium's fake camera, its pictures numbered by a strip."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn.hardware.machine import cache
from sojourn.scoring.picture import strip

if TYPE_CHECKING:
    from sojourn.apps.standins import scenes

#: Off a divisor of the recorder's 60: the recorder's phase within a frame passes through all values each second,
#: so that the median of what it sees is not early or late by a part of a frame. Chromium takes whole numbers only.
FPS = 31
FRAMES = 155
"""After which the camera starts over; a delay of 5 s and more cannot be told from one that is a round shorter."""


@dataclass(frozen=True)
class Camera:
    """A y4m file for --use-file-for-fake-video-capture; it is played again and again."""

    file: Path
    width: int
    height: int


def ensure_camera(width: int, height: int, progress: Callable[[float], None] | None = None) -> Camera:
    """Return the camera of `width` x `height` px, painting it first when the cache has none (some seconds)."""
    from sojourn.apps.standins import scenes  # with OpenCV, which loads slowly

    recipe = hashlib.sha256(repr((width, height, FPS, FRAMES)).encode())
    for source in (__file__, scenes.__file__):
        recipe.update(Path(source).read_bytes())
    folder = cache.build_once(
        cache.root() / "camera" / recipe.hexdigest()[:16],
        lambda work: _write(work / "camera.y4m", width, height, progress or (lambda share: None)),
    )
    return Camera(folder / "camera.y4m", width, height)


def _write(file: Path, width: int, height: int, progress: Callable[[float], None]) -> None:
    import cv2

    with file.open("wb") as out:
        out.write(f"YUV4MPEG2 W{width} H{height} F{FPS}:1 Ip A1:1 C420\n".encode())
        for number, picture in enumerate(pictures(width, height)):
            planes = cv2.cvtColor(picture, cv2.COLOR_RGB2YUV_I420)
            band = strip.render(number, 0, width, height)
            planes[height - len(band) : height] = band
            grey = len(band) // 2  # chroma planes have half the rows; a coloured strip would be darker or lighter
            chroma = planes[height:].reshape(2, height // 2, width // 2)
            chroma[:, height // 2 - grey :] = 128
            out.write(b"FRAME\n" + planes.tobytes())
            progress((number + 1) / FRAMES)


def pictures(width: int, height: int) -> Iterator[scenes.Image]:
    """A head that sways before a wall that stands still; the last picture leads back into the first."""
    import cv2
    import numpy as np

    from sojourn.apps.standins import scenes

    rng = np.random.default_rng(8)
    wall = (scenes.noise(rng, (height, width), 2.2)[..., None] * (70, 80, 90) + 60).astype(np.uint8)
    face = (scenes.noise(rng, (height, width), 1.5)[..., None] * (120, 90, 70) + 80).astype(np.uint8)
    axes = height // 4, height // 3
    for number in range(FRAMES):
        turn = 2 * np.pi * number / FRAMES
        sway = round(height / 10 * np.sin(2 * turn)), round(height / 30 * np.sin(5 * turn))
        mask = np.zeros((height, width), np.uint8)
        middle = width // 2 + sway[0], height // 2 + sway[1]
        cv2.ellipse(mask, middle, axes, 8 * np.sin(3 * turn), 0, 360, 255, -1, cv2.LINE_AA)
        picture = wall.copy()
        np.copyto(picture, np.roll(face, sway, (1, 0)), where=mask[..., None] > 127)
        yield picture
