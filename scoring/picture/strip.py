# SPDX-License-Identifier: Apache-2.0
"""The machine-readable strip of the test clip: its geometry, how to make it and how to read it.

One row of 40 black or white cells along the bottom edge of the picture. It encodes the frame number
and the rendition, so that a screen recording alone shows what was displayed and when.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

# NumPy and OpenCV load slowly, and most commands make and read no strip.
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

CELLS = 40
HEIGHT_SHARE = 20  # the strip is 1/20 of the picture's height
FRAME_BITS = 20
RENDITION_BITS = 4
WHITE, BLACK = 235, 16  # luma of a one and of a zero
MIN_CONTRAST = 64  # minimum luma difference between ones and zeros of a visible strip

_HEAD, _TAIL = 0b1010, 0b0101
_ONES = [0, 2, 37, 39]
_ZEROS = [1, 3, 36, 38]
_SAMPLES = 4  # columns per cell after averaging; the inner two are read
_MIN_CELL = 4.0  # px; narrower cells are not searched

Gray: TypeAlias = "npt.NDArray[Any]"


class Reading(NamedTuple):
    """The contents of a strip: source frame number (0 to 2^20-1) and rendition index (0 = lowest rung)."""

    frame: int
    rendition: int


@dataclass(frozen=True)
class Box:
    """The strip's area in an image, in pixels."""

    x: int
    y: int
    width: int
    height: int

    @classmethod
    def bottom(cls, width: int, height: int) -> Box:
        """Return the strip's area in a picture that fills an image of `width` x `height` px."""
        strip = height // HEIGHT_SHARE
        return cls(0, height - strip, width, strip)


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value << 1) ^ (0x107 if value & 0x80 else 0)
        table.append(value)
    return tuple(table)


_CRC = _crc_table()


def crc8(value: int) -> int:
    """Return the CRC-8 (polynomial 0x07, start 0, no reflection) of the 24 bits of `value`."""
    crc = _CRC[value >> 16]
    crc = _CRC[crc ^ (value >> 8 & 0xFF)]
    return _CRC[crc ^ (value & 0xFF)]


def pattern(frame: int, rendition: int) -> npt.NDArray[np.uint8]:
    """Return the 40 cells, left to right, as 0 and 1: shape (40,). Raises ValueError if a number needs more bits."""
    import numpy as np

    if not 0 <= frame < 1 << FRAME_BITS:
        raise ValueError(f"strip frame number {frame} is not in 0..{(1 << FRAME_BITS) - 1}")
    if not 0 <= rendition < 1 << RENDITION_BITS:
        raise ValueError(f"strip rendition {rendition} is not in 0..{(1 << RENDITION_BITS) - 1}")
    data = frame << RENDITION_BITS | rendition
    word = _HEAD << 36 | data << 12 | crc8(data) << 4 | _TAIL
    return np.unpackbits(np.frombuffer(word.to_bytes(5, "big"), np.uint8))


def render(frame: int, rendition: int, width: int, height: int) -> npt.NDArray[np.uint8]:
    """Return the strip as luma for a picture of `width` x `height` px: shape (height // 20, width)."""
    import numpy as np

    cells = np.where(pattern(frame, rendition), WHITE, BLACK).astype(np.uint8)
    columns = cells[np.arange(width) * CELLS // width]
    return np.broadcast_to(columns, (height // HEIGHT_SHARE, width)).copy()


def read(gray: Gray, box: Box | None = None) -> Reading | None:
    """Read the strip of an 8-bit gray image (rows, columns) inside `box`, by default along the bottom edge.

    Returns None if the strip is missing, covered, or has a wrong CRC (a torn picture).
    """
    if box is None:
        box = Box.bottom(gray.shape[1], gray.shape[0])
    # The middle rows only: scaling blurs the strip's edges into the picture above.
    rows = gray[box.y + box.height // 3 : box.y + box.height - box.height // 3, box.x : box.x + box.width]
    if not rows.size:
        return None
    import cv2
    import numpy as np

    line = cv2.resize(rows, (CELLS * _SAMPLES, 1), interpolation=cv2.INTER_AREA)
    return _decode(line.reshape(CELLS, _SAMPLES)[:, 1:3].sum(axis=1, dtype=np.int32) / 2)


def _decode(cells: npt.NDArray[np.float64]) -> Reading | None:
    import numpy as np

    white, black = cells[_ONES].min(), cells[_ZEROS].max()
    if white - black < MIN_CONTRAST:
        return None
    word = int.from_bytes(np.packbits(cells > (white + black) / 2).tobytes(), "big")
    data = word >> 12 & 0xFFFFFF
    if word >> 36 != _HEAD or word & 0xF != _TAIL or word >> 4 & 0xFF != crc8(data):
        return None
    return Reading(data >> RENDITION_BITS, data & (1 << RENDITION_BITS) - 1)


def locate(gray: Gray) -> Box | None:
    """Find the strip anywhere in an 8-bit gray image, at any scale with cells of 4 px or more.

    Returns None without a strip with a correct CRC. Takes milliseconds: call it once, then `read`.
    """
    for y in range(gray.shape[0] - 1, -1, -2):
        span = _span(gray[y])
        if span is None:
            continue
        x, width = span
        top = bottom = y
        strip_read = read(gray, Box(x, y, width, 1))
        while top > 0 and read(gray, Box(x, top - 1, width, 1)) == strip_read:
            top -= 1
        while bottom + 1 < gray.shape[0] and read(gray, Box(x, bottom + 1, width, 1)) == strip_read:
            bottom += 1
        return Box(x, top, width, bottom - top + 1)
    return None


def _span(row: Gray) -> tuple[int, int] | None:
    """Return (x, width) of a strip in one row of pixels, from the edges between its alternating end cells."""
    import numpy as np

    high = row >= (WHITE + BLACK) // 2
    edges = np.flatnonzero(high[1:] != high[:-1]) + 1
    for first, second, third in zip(edges, edges[1:], edges[2:], strict=False):
        cell = (third - first) / 2
        # Cells 0-3 are 1,0,1,0: a falling edge, then two more, each one cell on.
        if high[first] or cell < _MIN_CELL or abs(second - first - cell) > 0.5 + 0.1 * cell:
            continue
        guess = second + 36 * cell  # the edge between cells 37 and 38
        near = edges[(np.abs(edges - guess) <= 18 * 0.6 + cell) & ~high[edges]]
        for late in near:
            cell_fine = (late - second) / 36
            x = round(second - 2 * cell_fine)
            width = round(CELLS * cell_fine)
            # The window may cut a pixel off the outermost cells.
            left, right = max(0, x), min(row.shape[0], x + width)
            if x < -cell / 2 or x + width > row.shape[0] + cell / 2:
                continue
            if read(row[None, :], Box(left, 0, right - left, 1)) is not None:
                return left, right - left
    return None
