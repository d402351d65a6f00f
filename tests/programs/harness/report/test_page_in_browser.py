# SPDX-License-Identifier: Apache-2.0
"""The pages work in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.lab
def test_the_cursor_moves_with_the_recording(recorded: Callable[..., Path], chromium: Any) -> None:
    """In a real browser: playing moves the cursor through the plots; a click and the keyboard move the recording."""
    context = chromium.new_context(offline=True)
    page = context.new_page()
    page.goto((recorded(32) / "report.html").as_uri())
    plot, cursor = page.locator(".timeline"), page.locator(".timeline .cursor")
    page.wait_for_function("document.getElementById('screen').readyState >= 1")
    # Seconds of the run at the cursor and in the recording; the plot is 1000 wide, 64 left and 12 right of its axis.
    place = """() => [(document.querySelector('.cursor').getAttribute('x1') - 64) / 924 * 30,
                      document.getElementById('screen').currentTime - 2]"""
    assert (
        float(cursor.get_attribute("x1") or 0) < 0
        and page.locator("#at").inner_text() == "2.0 s before the first phase"
    )

    def at(seconds: float, phase: str) -> None:
        page.wait_for_function(f"Math.abs(document.getElementById('screen').currentTime - 2 - {seconds}) < 0.1")
        shown, played = page.evaluate(place)
        assert shown == pytest.approx(played, abs=0.05)
        assert plot.get_attribute("aria-valuetext") == f"{seconds:.1f} s, {phase}" == page.locator("#at").inner_text()

    box = plot.bounding_box()
    plot.click(position={"x": box["width"] * (64 + 924 * 0.6) / 1000, "y": 80})
    at(18, "prague")
    keys = [("ArrowRight", 19, "prague"), ("PageUp", 29, "solo-2"), ("Home", 0, "solo-1")]
    for key, seconds, phase in [*keys, ("Shift+ArrowRight", 10, "prague")]:
        page.keyboard.press(key)
        at(seconds, phase)
    page.keyboard.press("Space")
    seen = []
    for _ in range(5):
        page.wait_for_timeout(200)
        seen.append(page.evaluate(place))
    page.keyboard.press("Space")
    assert page.evaluate("document.getElementById('screen').paused")
    assert all(shown == pytest.approx(played, abs=0.15) for shown, played in seen)
    assert all(later[0] > earlier[0] for earlier, later in pairwise(seen)) and 10.3 < seen[-1][0] < 13
    context.close()
