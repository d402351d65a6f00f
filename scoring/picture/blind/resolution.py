# SPDX-License-Identifier: Apache-2.0
"""The rendition on the screen from the picture alone, by the mirror image that upscaling leaves in its spectrum.

A picture of h lines shown on H > h lines has no detail of its own above cosine term h of H, only an image of the
terms below, mirrored around term h with inverted sign: term h + k is about -c times term h - k. The correlation of
the two over all columns is near -1 for the picture's true height, and near 0 for any other (the sign inversion is what
"resdet" by 0x09 looks for). A player's bilinear scaling (measured in Chromium) leaves it strong, a recorder's encoder
weakens it and adds none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sojourn.scoring.picture.blind.place import CLEAR, middle

LADDER = (144, 240, 360, 480, 720, 1080, 1440, 2160)
"""The heights to test if the site's are unknown."""
ASPECT = 16 / 9
_WHOLE = 0.98  # of the video's lines: a picture with more was not upscaled
_ROUNDING = 1e-6  # of the largest term
_REACH = 0.25  # of the picture's terms on each side of the mirror
_LEAST, _LEAST_NEAR = 0.15, 0.04  # inverse correlation above which a picture is probably upscaled
_NEAR = 0.85  # of the picture's lines: beyond, little is left above the mirror
_LOSS, _MOST = 0.1, 0.5  # limits of one sample's evidence against and for a height
_SWITCH = 0.2  # minimum gain in correlation of a change of rendition, summed over samples

Pixels = npt.NDArray[np.uint8]


def video_lines(rows: int, columns: int) -> int:
    """Return the lines of the video with this picture: more than the picture's if black bars were excluded."""
    return round(max(rows, columns / ASPECT))


def classes(ladder: Sequence[int], lines: int) -> list[int]:
    """Return the rungs that are distinguishable on a video of `lines`: those below it, and the smallest other."""
    below = sorted(h for h in set(ladder) if h < _WHOLE * lines)
    return below + sorted(h for h in set(ladder) if h >= _WHOLE * lines)[:1]


def mirrors(picture: Pixels, heights: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return the correlation around every height's mirror, -1 to 1; 0 for heights not below the video's.

    `picture` holds (rows, columns), `heights` rise. It is the mean of both directions,
    or one direction if black bars were excluded in the other: there, the picture may begin within a line.
    """
    rows, columns = picture.shape
    whole = video_lines(rows, columns)
    below = [height for height in heights if height < _WHOLE * whole]
    used, half = _lines(rows, [height / whole for height in below]), middle(rows, columns)
    grey = picture[:used].astype(np.float32)
    sums = np.zeros((len(heights), 2))
    masks = [rows >= _WHOLE * whole, columns >= _WHOLE * whole * ASPECT]
    # Every other line of the averaged direction is as good in half the time.
    if masks[0]:
        sides = grey[:, np.abs(np.arange(columns) - columns // 2) >= half]
        spectrum, noise = _spectrum(sides[:, ::2])
        sums[: len(below), 0] = [_mirror(spectrum, noise, height / whole) for height in below]
    if masks[1]:
        clear = grey[np.abs(np.arange(used) - rows // 2) >= half]
        spectrum, noise = _spectrum(clear[::2].T)
        # An encoder's width is even.
        wide = [2 * round(height * ASPECT / 2) / columns for height in below]
        sums[: len(below), 1] = [_mirror(spectrum, noise, share) for share in wide]
    return np.asarray(sums[:, masks].mean(axis=1))


def _lines(rows: int, shares: Sequence[float]) -> int:
    """Return the lines from the top above captions; a number that ends close to a line of every height.

    The cosine transform continues as a mirror image beyond its edge, which fits an upscaled picture only between lines.
    """

    def cut(lines: int) -> tuple[float, int]:
        return round(max((abs(lines * share - round(lines * share)) for share in shares), default=0.0), 6), -lines

    return min(range(int(0.9 * CLEAR * rows), int(CLEAR * rows) + 1), key=cut)


def _spectrum(lines: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], float]:
    """Return the cosine terms along the first axis, and the power per term that rounding causes in all columns."""
    from scipy import fft  # type: ignore[import-untyped]  # takes a quarter of a second; few runs need it

    spectrum = fft.dct(lines, axis=0)
    return spectrum, float(spectrum.shape[1] * (_ROUNDING * np.abs(spectrum).max()) ** 2 + 1e-9)


def _mirror(spectrum: npt.NDArray[np.float32], noise: float, share: float) -> float:
    terms = len(spectrum)
    at = round(share * terms)
    reach = np.arange(2, min(max(6, int(_REACH * terms)), at, terms - at))
    below, above = spectrum[at - reach], spectrum[at + reach]
    power = ((below * below).sum(1) + noise) * ((above * above).sum(1) + noise)
    return float(((below * above).sum(1) / np.sqrt(power)).mean()) if len(reach) else 0.0


def follow(looks: npt.NDArray[np.float64], heights: Sequence[int], lines: int) -> list[int]:
    """Return the likeliest height at every sample over time (Viterbi), for a video of `lines`.

    `looks` are rows of `mirrors` for `heights`, which are `classes`; the last one is not upscaled and has no
    mirror: it applies if no other does.
    """
    if not len(looks):
        return []
    shares = np.array(heights) / lines
    least = np.where(shares > _NEAR, _LEAST_NEAR, _LEAST)
    gain = np.clip(-looks - least, -_LOSS, _MOST)
    gain[:, shares >= _WHOLE] = 0
    best, back = gain[0], []
    for row in gain[1:]:
        stay = best >= best.max() - _SWITCH
        back.append(np.where(stay, np.arange(len(best)), int(best.argmax())))
        best = np.where(stay, best, best.max() - _SWITCH) + row
    path = [int(best.argmax())]
    for step in reversed(back):
        path.append(int(step[path[-1]]))
    return [heights[n] for n in reversed(path)]
