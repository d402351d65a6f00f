# SPDX-License-Identifier: Apache-2.0
"""The strips of a room's tiles are read from their rows alone as from whole pictures."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from sojourn.apps.room import places
from sojourn.scoring.picture import strip
from sojourn.scoring.picture.frames import read_strips
from sojourn.scoring.picture.recording import decode
from sojourn.scoring.picture.tiles import strip_box

WIDTH, HEIGHT, COUNT = 640, 360, 6


def recorded(file: Path, tiles: dict[int, tuple[int, int, int, int]]) -> Path:
    """Encode a noisy screen in which tile P has the number 100 P + N in picture N."""
    noise = np.random.default_rng(1)
    command = ["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{WIDTH}x{HEIGHT}", "-i", "-"]
    with subprocess.Popen([*command, "-c:v", "libx264", "-qp", "30", str(file)], stdin=subprocess.PIPE) as ffmpeg:
        assert ffmpeg.stdin
        for number in range(COUNT):
            planes = noise.integers(60, 180, (HEIGHT * 3 // 2, WIDTH), np.uint8)
            for party, (x, y, width, height) in tiles.items():
                band = strip.render(100 * party + number, 0, width, height)
                planes[y + height - len(band) : y + height, x : x + width] = band
            ffmpeg.stdin.write(planes.tobytes())
    return file


@pytest.mark.parametrize("parties", [2, 3, 4, 6])  # one row of tiles or two; strips at odd places and of odd heights
def test_tiles_are_read_as_from_whole_pictures(parties: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = places(parties, (WIDTH, HEIGHT))
    file, boxes = recorded(tmp_path / "screen.mp4", tiles), [strip_box(place) for place in tiles.values()]
    read = strip.read
    seen: list[strip.Gray] = []

    def noted(image: strip.Gray, box: strip.Box) -> strip.Reading | None:
        seen.append(image[box.y : box.y + box.height, box.x : box.x + box.width])
        return read(image, box)

    monkeypatch.setattr(strip, "read", noted)
    shown = read_strips(file, 0.0, boxes)
    for party, table in zip(tiles, shown, strict=True):
        assert table["frame"].to_list() == [100 * party + number for number in range(COUNT)]
    whole = decode(file, "format=gray", WIDTH, HEIGHT)
    expected = [picture[b.y : b.y + b.height, b.x : b.x + b.width] for picture in whole for b in boxes]
    assert all(np.array_equal(strips, cut) for strips, cut in zip(seen, expected, strict=True))
