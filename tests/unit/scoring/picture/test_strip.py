# SPDX-License-Identifier: Apache-2.0
"""The strip survives scaling, heavy H.264 compression and odd places, and never yields a wrong number."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from sojourn.scoring.picture import strip


def picture(frame: int, rendition: int, width: int = 1280, height: int = 720) -> np.ndarray:
    noise = np.random.default_rng(frame).integers(0, 256, (height, width), dtype=np.uint8)
    image = cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 3), None, 0, 255, cv2.NORM_MINMAX)
    image[height - height // strip.HEIGHT_SHARE :] = strip.render(frame, rendition, width, height)
    return image


def test_crc8_has_the_published_check_value_of_its_prefix() -> None:
    # CRC-8/SMBUS of "123456789" is 0xF4; its state after three bytes, fed on by hand, must end there.
    crc = 0
    for byte in b"123456789":
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ (0x07 if crc & 0x80 else 0)) & 0xFF
    assert crc == 0xF4
    assert strip.crc8(int.from_bytes(b"123", "big")) == 0xC0


def test_pattern_follows_the_layout() -> None:
    cells = strip.pattern(0b1010_0000_0000_0000_0001, 0b0110)
    assert cells.shape == (40,)
    assert "".join(map(str, cells[:28])) == "1010" + "10100000000000000001" + "0110"
    assert "".join(map(str, cells[36:])) == "0101"


@pytest.mark.parametrize(("frame", "rendition"), [(1 << 20, 0), (-1, 0), (0, 16)])
def test_pattern_refuses_numbers_that_do_not_fit(frame: int, rendition: int) -> None:
    with pytest.raises(ValueError, match="strip"):
        strip.pattern(frame, rendition)


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (854, 480), (640, 360), (426, 240)])
def test_every_rung_reads_back_when_shown_on_a_720p_screen(width: int, height: int) -> None:
    for frame in (0, 1, 1799, (1 << 20) - 1):
        small = cv2.resize(picture(frame, 4), (width, height), interpolation=cv2.INTER_AREA)
        shown = cv2.resize(small, (1280, 720), interpolation=cv2.INTER_LINEAR)
        assert strip.read(shown) == (frame, 4)


@pytest.mark.parametrize("background", [0, 128, 255])
@pytest.mark.parametrize("width", [256, 426, 853, 1278])
def test_locate_finds_a_player_anywhere_on_the_page(background: int, width: int) -> None:
    height = round(width * 9 / 16)
    page = np.full((720, 1280), background, np.uint8)
    x, y = min(31, 1280 - width), min(40, 720 - height)
    page[y : y + height, x : x + width] = cv2.resize(picture(4711, 2), (width, height), interpolation=cv2.INTER_AREA)
    box = strip.locate(page)
    assert box is not None
    assert abs(box.x - x) <= 1 and abs(box.width - width) <= 1
    assert abs(box.y + box.height - y - height) <= 1
    assert strip.read(page, box) == (4711, 2)


def test_no_strip_means_no_reading() -> None:
    rng = np.random.default_rng(3)
    for image in (np.zeros((720, 1280), np.uint8), rng.integers(0, 256, (720, 1280), dtype=np.uint8)):
        assert strip.read(image) is None
        assert strip.locate(image) is None


def test_a_torn_picture_is_refused() -> None:
    torn = picture(100, 3)
    torn[:, 640:] = picture(355, 3)[:, 640:]
    assert strip.read(torn) is None


def test_a_faint_strip_is_refused() -> None:
    faint = (picture(100, 3) // 5).astype(np.uint8)
    assert strip.read(faint) is None
