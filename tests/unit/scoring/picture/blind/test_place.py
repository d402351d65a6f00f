# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sojourn.scoring.picture.blind.place import PictureArea, find, reported_area


def looks(box: PictureArea | None, clock: bool = True) -> list[npt.NDArray[np.uint8]]:
    """A page with text, a video in `box` that moves, and a clock beside it."""
    draw = np.random.default_rng(1)
    page = np.full((720, 1280), 24, np.uint8)
    for row in range(20, 720, 36):
        cv2.putText(page, "words of a page that never move", (10, row), cv2.FONT_HERSHEY_DUPLEX, 0.7, 130, 1)
    found = []
    for n in range(12):
        screen = page.copy()
        if box:
            noise = draw.integers(0, 255, (box.height // 8 + 1, box.width // 8 + 1), dtype=np.uint8)
            picture = cv2.resize(noise, None, fx=8, fy=8, interpolation=cv2.INTER_LINEAR)
            screen[box.y : box.y + box.height, box.x : box.x + box.width] = picture[: box.height, : box.width]
        if clock:
            cv2.putText(screen, f"0:{n:02}", (1180, 700), cv2.FONT_HERSHEY_DUPLEX, 0.6, 240, 1)
        found.append(screen)
    return found


@pytest.mark.parametrize(
    "box", [PictureArea(0, 0, 1280, 720), PictureArea(246, 37, 960, 540), PictureArea(100, 150, 854, 480)]
)
def test_the_video_is_found_to_the_pixel(box: PictureArea) -> None:
    assert find(looks(box)) == box


def test_a_page_without_a_video_has_none() -> None:
    assert find(looks(None)) is None and find(looks(None, clock=False)) is None and find([]) is None


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ([], PictureArea(400, 200, 300, 320)),
        ([(100, 150, 854, 480)] * 3 + [(0, 0, 1280, 720)], PictureArea(100, 150, 854, 480)),
        ([(-20, 90, 1320, 700)], PictureArea(0, 90, 1280, 630)),
        ([(700, 150, 400, 225)], PictureArea(400, 200, 300, 320)),
    ],
    ids=["no page", "a head in a part of it", "beyond the screen", "what moves is elsewhere"],
)
def test_the_page_knows_the_place_better_if_what_moves_is_in_it(
    said: list[tuple[int, ...]], place: PictureArea
) -> None:
    assert reported_area(said, PictureArea(400, 200, 300, 320), (1280, 720)) == place
