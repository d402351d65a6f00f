# SPDX-License-Identifier: Apache-2.0
"""The encoder's command for a profile's film, whatever heights the profile has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sojourn.apps.standins.profile.film import _command, _encoded
from sojourn.apps.standins.profile.recorded import Rendition


@pytest.mark.parametrize("height", [48, 144, 234, 270, 404, 405, 432, 540, 719, 720, 1080, 4319])
def test_picture_and_strip_have_even_lines_that_add_up_to_the_height(height: int) -> None:
    """libx264 refuses an odd number of lines, and ffmpeg's crop rounds an odd one down."""
    rung = _encoded(Rendition(height=height, bandwidth=1_000_000, sizes=(100_000,)), 2.0)
    assert rung.height == height // 2 * 2
    command = _command(Path(), [rung, rung], (1280, 720), 60)
    graph = command[command.index("-filter_complex") + 1]
    for index in range(2):
        top = re.search(rf"crop={rung.width}:(\d+):0:0\[top{index}]", graph)
        strip = re.search(rf"scale={rung.width}:(\d+):flags=neighbor\[strip{index}]", graph)
        assert top and strip and int(top[1]) + int(strip[1]) == rung.height
        assert not int(top[1]) % 2 and not int(strip[1]) % 2
