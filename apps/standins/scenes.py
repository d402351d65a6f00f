# SPDX-License-Identifier: Apache-2.0
"""The moving pictures of the test clip: coasts from above, mountain ranges at dusk, drifting nebulae.

All of it grows from 1/f noise, whose spectrum is that of natural pictures (D. J. Field, "Relations between
the statistics of natural images and the response properties of cortical cells", JOSA A 4(12), 1987).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[Any]  # RGB, uint8
Field = npt.NDArray[np.float32]
Painter = Callable[[float], Image]  # seconds since the scene began -> RGB picture

WIDTH, HEIGHT = 1920, 1080
_TEXTURE = (1536, 2880)  # larger than the picture, so that the camera has room to move
SCENE_SECONDS = 5

# Colour stops from the lowest to the highest ground: sea, shore, growth, rock, top.
_COASTS = (
    ("10304f 1f6f8b 4fb3bf e8d8a0 7fa650 3f7040 6d6658 c9c2b8 ffffff"),
    ("1a1638 3b2f63 7a4e7e d9a58b c77b58 8a4a45 5b3140 c9a9a6 fff4e6"),
    ("0b3c49 13747d 5fc0b4 fff1c1 c8b560 8d9b4a 4d6b3c 8e8b7a f4f1ea"),
)
_SKIES = (("2b2d5b", "f7a072", "ffd9a0"), ("1d3557", "8fbcd4", "f1efe0"), ("3a1c4a", "e0607e", "ffc78f"))
_NEBULAE = ("05051a 1b1147 52247f b5367a f1605d feb078 fff6d8", "03101c 073b4c 118ab2 06d6a0 9be564 f7f7c6")


def noise(rng: np.random.Generator, shape: tuple[int, int], exponent: float) -> Field:
    """Periodic 1/f^exponent noise in 0..1, shape (rows, columns)."""
    rows, columns = shape
    radius = np.hypot(np.fft.fftfreq(rows)[:, None] * rows, np.fft.rfftfreq(columns)[None, :] * columns)
    radius[0, 0] = np.inf
    phase = rng.random(radius.shape, np.float32) * np.float32(2 * np.pi)
    field = np.fft.irfft2(np.exp(1j * phase) / radius**exponent, shape)
    low, high = np.percentile(field[::8, ::8], (0.5, 99.5))
    scaled: Field = np.clip((field - low) / (high - low), 0, 1).astype(np.float32)
    return scaled


def _colours(stops: str, count: int = 256) -> npt.NDArray[np.float32]:
    """A colour map of `count` RGB rows through hexadecimal stops."""
    points = np.array([list(bytes.fromhex(stop)) for stop in stops.split()], np.float32)
    at = np.linspace(0, len(points) - 1, count)
    channels = [np.interp(at, np.arange(len(points)), points[:, c]) for c in range(3)]
    return np.stack(channels, 1).astype(np.float32)


def _fly(texture: Image, t: float, *, speed: float, turn: float, zoom: float) -> Image:
    """The camera's view of a texture: px/s along its width, degrees/s around its axis, share/s closer."""
    rows, columns = texture.shape[:2]
    scale = 1.12 + zoom * t
    centre = columns / 2 + speed * (t - SCENE_SECONDS / 2), rows / 2
    view = cv2.getRotationMatrix2D(centre, turn * (t - SCENE_SECONDS / 2), scale)
    view[:, 2] += np.array([WIDTH / 2, HEIGHT / 2]) - centre
    size = WIDTH, HEIGHT
    return cv2.warpAffine(texture, view, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)


def coast(rng: np.random.Generator, variant: int) -> Painter:
    """Islands seen from above, lit from the north-west."""
    height = 0.9 * noise(rng, _TEXTURE, 1.9) + 0.1 * noise(rng, _TEXTURE, 1.1)
    ground = _colours(_COASTS[variant % len(_COASTS)])[(height * 255).astype(np.uint8)]
    land = np.clip((height - 0.38) * 12, 0.12, 1)
    slope = (np.gradient(height, axis=0) + np.gradient(height, axis=1)) * 38 * land
    texture = np.clip(ground * np.clip(1 + slope, 0.35, 1.6)[..., None], 0, 255).astype(np.uint8)
    return lambda t: _fly(texture, t, speed=110, turn=1.6, zoom=0.03)


def ridges(rng: np.random.Generator, variant: int) -> Painter:
    """Mountain ranges one behind the other that pass at their own speeds."""
    top, haze, glow = (_colours(stop, 1)[0] for stop in _SKIES[variant % len(_SKIES)])
    rows = np.linspace(0, 1, HEIGHT, dtype=np.float32)[:, None, None]
    sky = top * (1 - rows) + haze * rows
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    distance = np.hypot(x - WIDTH * 0.68, y - HEIGHT * 0.36)
    sky = sky + np.exp(-distance / 260)[..., None] * (glow - sky) + (distance < 70)[..., None] * 40
    cirrus = noise(rng, (HEIGHT, WIDTH), 1.6)[..., None]
    sky = np.clip(sky + (cirrus - 0.5) * 50, 0, 255).astype(np.uint8)

    layers = []
    grain = noise(rng, _TEXTURE, 1.0)
    columns = _TEXTURE[1]
    for depth in np.linspace(0, 1, 5):  # 0 = farthest
        line = noise(rng, (2, columns), 1.5)[0] * (170 + 130 * depth) + HEIGHT * (0.40 + 0.40 * depth)
        first = int(line.min())
        y = np.arange(first, HEIGHT, dtype=np.float32)[:, None]
        below = np.clip((y - line[None, :]) / 260, 0, 1)[..., None]
        colour = haze * (1 - depth) * 0.75 + top * (0.55 - 0.35 * depth)
        shade = 0.55 + 0.9 * grain[: HEIGHT - first, :, None]
        picture = np.clip((colour * (1 - below * 0.35) + glow * 0.12 * (1 - below)) * shade, 0, 255)
        layers.append((first, 30 + 300 * depth**2, picture.astype(np.uint8), (y > line).astype(np.uint8)))

    def paint(t: float) -> Image:
        frame: Image = sky.copy()
        for first, speed, picture, mask in layers:
            x = round(speed * t / 2)
            seen, where = (np.ascontiguousarray(part[:, x : x + WIDTH]) for part in (picture, mask))
            cv2.copyTo(seen, where, frame[first:])
        return frame

    return paint


def nebula(rng: np.random.Generator, variant: int) -> Painter:
    """Two clouds of gas and dust that drift through each other before the stars."""
    gas = _colours(_NEBULAE[variant % len(_NEBULAE)])[(noise(rng, _TEXTURE, 1.45) * 255).astype(np.uint8)]
    stars = cv2.GaussianBlur((rng.random(_TEXTURE, np.float32) > 0.9996).astype(np.float32), (0, 0), 1.3)
    gas = np.clip(gas + stars[..., None] * 1800, 0, 255).astype(np.uint8)
    dust = (noise(rng, _TEXTURE, 1.3)[..., None] * np.array([150, 140, 160]) + 50).astype(np.uint8)

    def paint(t: float) -> Image:
        near = _fly(dust, t, speed=-150, turn=-1.2, zoom=0.05)
        return cv2.multiply(_fly(gas, t, speed=70, turn=2.0, zoom=0.02), near, scale=1 / 140)

    return paint


_KINDS = (coast, ridges, nebula)


def _star(size: int = 150) -> Image:
    """A Siemens star: its grey centre is what a rendition cannot resolve."""
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    star = np.where(np.cos(36 * np.arctan2(y, x)) > 0, 225, 30)
    star[np.hypot(x, y) > 1] = 128
    return np.repeat(star.astype(np.uint8)[..., None], 3, 2)


def _label(frame: Image, text: str, x: int, y: int, size: float) -> None:
    for colour, width in (((0, 0, 0), 7), ((255, 255, 255), 2)):
        cv2.putText(frame, text, (x, y), cv2.FONT_HERSHEY_DUPLEX, size, colour, width, cv2.LINE_AA)


def frames(seconds: int, fps: int, seed: int = 8) -> Iterator[Image]:
    """Yield the clip's RGB pictures, shape (1080, 1920, 3) uint8, `fps` a second; one seed, one clip.

    Each shows its time and its frame number within the clip.
    """
    star = _star()
    disc = np.hypot(*np.mgrid[-1 : 1 : len(star) * 1j, -1 : 1 : len(star) * 1j]) <= 1
    for scene in range(-(-seconds // SCENE_SECONDS)):
        rng = np.random.default_rng((seed, scene))
        paint = _KINDS[scene % len(_KINDS)](rng, scene // len(_KINDS))
        for step in range(min(SCENE_SECONDS, seconds - scene * SCENE_SECONDS) * fps):
            number = scene * SCENE_SECONDS * fps + step
            frame = paint(step / fps)
            corner = frame[36 : 36 + len(star), WIDTH - 36 - len(star) : WIDTH - 36]
            corner[disc] = star[disc]
            minutes, rest = divmod(number / fps, 60)
            _label(frame, f"{int(minutes):02}:{rest:05.2f}", 40, 96, 2.0)
            _label(frame, f"frame {number:04}", 42, 150, 1.1)
            yield frame
