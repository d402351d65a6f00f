# SPDX-License-Identifier: Apache-2.0
"""The pages work in a real browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sojourn.harness.report.compare import compare
from sojourn.harness.report.comparison_page import write_comparison
from sojourn.harness.report.filmstrip import MOST, picture_of, without_recording, worst_moment
from sojourn.harness.report.run_page import write_report
from sojourn.harness.store.loaded import load_scores
from tests.links import broken_links
from tests.sound import spoken, write_flac
from tests.unit.harness.report.test_run_page import Page


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
    # The page moves the cursor once per frame: on a busy host, both are compared right after one.
    in_frame = f"() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(({place})()))))"
    assert float(cursor.get_attribute("x1") or 0) < 0
    # Until it plays, the recording shows the poster: the stall of 2.5 s at 14 s.
    assert re.fullmatch(r"Picture: 15\.\d s, prague, stall of 2\.5 s", page.locator("#at").inner_text())
    assert cursor.get_attribute("aria-valuetext") == "2.0 s before the first phase"

    def at(seconds: float, phase: str) -> None:
        page.wait_for_function(f"Math.abs(document.getElementById('screen').currentTime - 2 - {seconds}) < 0.1")
        shown, played = page.evaluate(place)
        assert shown == pytest.approx(played, abs=0.05)
        assert cursor.get_attribute("aria-valuetext") == f"{seconds:.1f} s, {phase}" == page.locator("#at").inner_text()

    box = plot.bounding_box()
    plot.click(position={"x": box["width"] * (64 + 924 * 0.6) / 1000, "y": 80})
    at(18, "prague")
    keys = [("ArrowRight", 19, "prague"), ("PageUp", 29, "solo-2"), ("Home", 0, "solo-1")]
    for key, seconds, phase in [*keys, ("Shift+ArrowRight", 10, "prague")]:
        page.keyboard.press(key)
        at(seconds, phase)
    page.keyboard.press("Space")
    seen = []
    for after in (10, 10.2, 10.4, 10.6, 10.8):  # whenever a busy host gets there
        page.wait_for_function(f"document.getElementById('screen').currentTime - 2 > {after}")
        seen.append(page.evaluate(in_frame))
    page.keyboard.press("Space")
    assert page.evaluate("document.getElementById('screen').paused")
    assert all(shown == pytest.approx(played, abs=0.15) for shown, played in seen)
    assert all(later[0] > earlier[0] for earlier, later in pairwise(seen)) and 10.3 < seen[-1][0] < 29
    context.close()


@pytest.mark.lab
def test_a_drag_zooms_and_a_key_hides_its_line(recorded: Callable[..., Path], chromium: Any) -> None:
    context = chromium.new_context(offline=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto((recorded(32) / "report.html").as_uri())
    plot = page.locator(".timeline")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()

    def x(seconds: float) -> float:
        return float(box["x"] + box["width"] * (64 + 924 * seconds / 30) / 1000)

    def ticks() -> list[float]:
        return [float(it) for it in plot.locator("> .tick.x").all_text_contents()]

    assert ticks() == [0, 5, 10, 15, 20, 25, 30]
    page.mouse.move(x(10), box["y"] + 80)
    page.mouse.down()
    page.mouse.move(x(20), box["y"] + 80, steps=5)
    page.mouse.up()
    assert ticks()[0] == 10 and 19 <= ticks()[-1] <= 20 and len(ticks()) > 7
    prague = plot.locator(".entry[data-name=prague]")
    page.mouse.move(x(15), box["y"] + 80)  # the middle of what is shown
    assert prague.text_content() == "prague 9.10", "by hand: Prague's 9.1 Mbit/s"
    line = plot.locator(".window path[data-name=prague]")
    drawn = "it => getComputedStyle(it).display !== 'none'"
    assert line.evaluate(drawn)
    prague.focus()
    page.keyboard.press("Enter")
    assert not line.evaluate(drawn) and prague.get_attribute("aria-pressed") == "false"
    page.get_by_role("button", name="Whole run").click()
    assert ticks() == [0, 5, 10, 15, 20, 25, 30]
    page.locator(".strip .worst").click()  # the stall of 2.5 s at 14 s
    page.wait_for_function("Math.abs(document.getElementById('screen').currentTime - 2 - 15.25) < 0.15")
    context.close()


@pytest.mark.lab
def test_the_sound_of_a_call_plays_in_step_with_the_recording(recorded: Callable[..., Path], chromium: Any) -> None:
    shutil.copytree(recorded(32), run := recorded(32).with_name("call"))
    write_flac(spoken(20.0), run / "sound.flac")  # the recording begins 2 s before the first phase
    write_report(run, load_scores(run).model_copy(update={"sound_begins": -1.0}))
    context = chromium.new_context(offline=True)
    page = context.new_page()
    page.goto((run / "report.html").as_uri())
    page.wait_for_function("document.getElementById('screen').readyState >= 1")
    find = "const [it, sound] = ['screen', 'sound'].map(name => document.getElementById(name));"
    in_step = f"() => {{ {find} return !sound.paused && Math.abs(sound.currentTime - (it.currentTime - 1)) < 0.1 }}"
    page.evaluate("document.getElementById('screen').play()")
    page.wait_for_function("document.getElementById('screen').currentTime > 0.3")
    assert page.evaluate(f"() => {{ {find} return it.currentTime > 0.9 || sound.paused }}"), "it has not begun"
    page.wait_for_function(in_step)
    page.evaluate("document.getElementById('screen').currentTime = 12")
    page.wait_for_function("document.getElementById('screen').currentTime > 12.2")
    page.wait_for_function(in_step)
    page.get_by_role("button", name="Sound").click()
    assert page.evaluate("document.getElementById('sound').muted")
    page.evaluate("document.getElementById('screen').currentTime = 22")
    page.wait_for_function(
        f"() => {{ {find} return !it.seeking && !it.paused && it.currentTime > 22 && sound.paused }}"
    )
    page.evaluate("document.getElementById('screen').currentTime = 5")
    page.wait_for_function(in_step)
    page.evaluate("document.getElementById('screen').pause()")
    page.wait_for_function("document.getElementById('sound').paused")
    context.close()


@pytest.mark.lab
def test_both_recordings_of_a_comparison_show_the_worst_moment_until_they_play(
    recorded: Callable[..., Path], chromium: Any
) -> None:
    one = recorded(32)
    shutil.copytree(one, other := one.with_name(f"{one.name}-2"))
    page = chromium.new_page()
    page.goto(write_comparison(compare(one, other), one.parent / "compare.html").as_uri())
    at = "[...document.querySelectorAll('.both video')].map(it => it.currentTime)"
    page.wait_for_function(f"{at}.every(t => Math.abs(t - 2 - 15.2) < 0.3)")
    assert "worst moment of A: prague, stall of 2.5 s" in page.locator("#both").inner_text()
    page.get_by_role("button", name="Play both").click()
    page.wait_for_function(f"{at}.every(t => t > 17.8)")
    first, second = page.evaluate(at)
    assert first == pytest.approx(second, abs=1) and "worst" not in page.locator("#both").inner_text()
    page.close()


@pytest.mark.lab
def test_the_report_stands_alone_but_for_the_recording(recorded: Callable[..., Path]) -> None:
    run = recorded(32)
    page, text = Page(run / "report.html"), (run / "report.html").read_text()
    pictures = [it for it in page.references if it.startswith("data:image/jpeg;base64,")]
    assert len(pictures) == MOST + 1, "of a strip and the poster"
    assert picture_of(run / "report.html", {"prague"}) in pictures and not picture_of(run / "report.html", {"cubic"})
    worst = worst_moment(run / "report.html")
    assert worst and (round(worst.t), worst.words, worst.offset) == (15, "prague, stall of 2.5 s", -2.0)
    links = {it for it in page.references if it[0] != "#" and it not in pictures}
    assert links >= {"screen.mp4", "manifest.json", "scores.json", "../index.html"}
    assert all((run / it).exists() for it in links - {"../index.html"})
    assert not re.search(r"https?://|url\(|@import", text)
    assert 'data-offset="-2.000"' in text
    assert len(text) < 250_000
    (run.parent / "index.html").touch()
    assert broken_links(run / "report.html") == []
    (other := run.with_name("without")).mkdir()
    for file in (*run.glob("*.json"), *run.glob("*.jsonl")):
        shutil.copy(file, other)
    (other / "report.html").write_text(without_recording(text))
    assert "Picture: 1" in text and "Picture: 1" not in (other / "report.html").read_text()
    assert broken_links(other / "report.html") == []
    (run / "screen.mp4").write_bytes(b"damaged")
    again = Page(write_report(run, load_scores(run)))
    assert "screen.mp4" in again.references and not any(it.startswith("data:") for it in again.references)
