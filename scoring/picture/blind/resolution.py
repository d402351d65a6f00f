# SPDX-License-Identifier: Apache-2.0
"""The rendition on the screen from the picture alone: by the mirror that upscaling leaves in its spectrum.

A picture of h lines shown on H > h has no detail of its own above h of its H cosine terms, only an image of what lies
below, mirrored around term h, its sign inverted: term h + k is about -c times term h - k. The correlation of the two
over all columns is near -1 for the height that the picture had, and near 0 for any other (the sign inversion is what
"resdet" by 0x09 looks for). A player's bilinear scaling (measured in Chromium) leaves it strong, a recorder's encoder
weakens it and adds none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sojourn.scoring.picture.blind.place import CLEAR, middle

LADDER = (144, 240, 360, 480, 720, 1080, 1440, 2160)
"""Heights looked for when the site's are unknown."""
ASPECT = 16 / 9
_WHOLE = 0.98  # of the video's lines: what has so many was not scaled up
_ROUNDING = 1e-6  # of the largest term
_REACH = 0.25  # of the picture's terms on each side of the mirror
_LEAST, _LEAST_NEAR = 0.15, 0.04  # inverse correlation from which a picture is likelier upscaled than not
_NEAR = 0.85  # of the picture's lines: from there on little is left above the mirror
_LOSS, _MOST = 0.1, 0.5  # what one look may tell against a height and for it
_SWITCH = 0.2  # what a change of rendition must gain in correlation, summed over its looks

Picture = npt.NDArray[np.uint8]


def video_lines(rows: int, columns: int, aspect: float = ASPECT) -> int:
    """Lines of the video of which this is the picture: it has more where black bars above and below were left out."""
    return round(max(rows, columns / aspect))


def classes(ladder: Sequence[int], lines: int) -> list[int]:
    """The rungs that can be told apart on a video of `lines`: those below it, and the least that is not."""
    below = sorted(h for h in set(ladder) if h < _WHOLE * lines)
    return below + sorted(h for h in set(ladder) if h >= _WHOLE * lines)[:1]


def mirrors(picture: Picture, heights: Sequence[int], aspect: float = ASPECT) -> npt.NDArray[np.float64]:
    """Correlation around each height's mirror, -1 to 1; 0 for heights not below the video's.

    `picture` holds (rows, columns), `heights` rise; `aspect` is that of the video. It is the mean of both directions,
    or of one where black bars were left out of the other: there the picture begins anywhere within a line.
    """
    rows, columns = picture.shape
    whole = video_lines(rows, columns, aspect)
    below = [height for height in heights if height < _WHOLE * whole]
    used, half = _lines(rows, [height / whole for height in below]), middle(rows, columns)
    grey = picture[:used].astype(np.float32)
    sums = np.zeros((len(heights), 2))
    masks = [rows >= _WHOLE * whole, columns >= _WHOLE * whole * aspect]
    # Every other line of the direction that is only averaged over tells as much in half the time.
    if masks[0]:
        sides = grey[:, np.abs(np.arange(columns) - columns // 2) >= half]
        spectrum, noise = _spectrum(sides[:, ::2])
        sums[: len(below), 0] = [_mirror(spectrum, noise, height / whole) for height in below]
    if masks[1]:
        clear = grey[np.abs(np.arange(used) - rows // 2) >= half]
        spectrum, noise = _spectrum(clear[::2].T)
        # An encoder's width is even.
        wide = [2 * round(height * aspect / 2) / columns for height in below]
        sums[: len(below), 1] = [_mirror(spectrum, noise, share) for share in wide]
    return np.asarray(sums[:, masks].mean(axis=1))


def _lines(rows: int, shares: Sequence[float]) -> int:
    """Lines from the top without captions, so many that a line of every height ends with them, as nearly as can be.

    The cosine transform goes on behind its edge as in a mirror, which fits what was scaled up only between its lines.
    """

    def cut(lines: int) -> tuple[float, int]:
        return round(max((abs(lines * share - round(lines * share)) for share in shares), default=0.0), 6), -lines

    return min(range(int(0.9 * CLEAR * rows), int(CLEAR * rows) + 1), key=cut)


def _spectrum(lines: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], float]:
    """Cosine terms along the first axis, and the power a term that rounding leaves in all columns together."""
    from scipy import fft  # type: ignore[import-untyped]  # a quarter of a second that few runs need

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
    """The likeliest height at each look, over time (Viterbi), of a video of `lines`.

    `looks` are rows of `mirrors` for `heights`, which are `classes`; the last of these is not upscaled and has no
    mirror: it is the likeliest where no other is.
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
