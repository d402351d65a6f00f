# SPDX-License-Identifier: Apache-2.0
"""Pages that hang, ask, open windows, answer too much or send files: the browser ends within its limit and says so."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from apps.browsers import browser
from apps.browsers.browser import Browser, BrowserError, flags
from apps.browsers.drivers import DRIVERS
from captures.player import DRAIN, SCRIPT, PlayerRecorder
from hardware.machine.display import Display
from hardware.machine.place import LOCAL

#: Enough for a slow machine to answer what is not hostile.
LIMIT_S = 4.0


@pytest.fixture(scope="module")
def display(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    screen = Display.start(LOCAL, tmp_path_factory.mktemp("screen") / "xvfb.log", (640, 360))
    yield screen.name
    screen.stop()


@pytest.fixture(params=DRIVERS)
def chromium(request: pytest.FixtureRequest, display: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    monkeypatch.setattr(browser, "_ANSWER_S", LIMIT_S)
    monkeypatch.setattr(browser, "_CLOSE_S", 2)
    chromium = DRIVERS[request.param](LOCAL, display, flags(width=640, height=360), scripts=[SCRIPT])
    yield chromium
    chromium.close()


def page(script: str) -> str:
    return f"data:text/html,<p>film</p><script>{script}</script>"


#: Name → what a page does once it is loaded.
HANGS = {
    "endless loop": "setTimeout(() => { for (;;); }, 50)",
    "endless loop of answers": "Object.defineProperty(window, 'asked', { get() { for (;;); } })",
    "never answers": "window.asked = new Promise(() => {})",
}


@pytest.mark.parametrize("name", HANGS)
def test_a_question_has_a_limit_after_which_the_browser_ends(chromium: Browser, name: str) -> None:
    chromium.open(page(HANGS[name]))
    begun = time.monotonic()
    with pytest.raises(BrowserError, match=r"has not answered for 4 s: its browser was ended"):
        while True:  # the page begins to hang between two questions
            chromium.evaluate("() => window.asked")
            assert time.monotonic() - begun < 60
    with pytest.raises(BrowserError, match="its browser was ended"):  # at once
        chromium.evaluate("() => 1")
    mine = str(chromium._profile)
    assert not [p for p in psutil.process_iter(["cmdline"]) if any(mine in a for a in p.info["cmdline"] or ())]


def test_the_samples_say_that_the_page_hangs(chromium: Browser, tmp_path: Path) -> None:
    chromium.open(page(HANGS["endless loop"]))
    recorder = PlayerRecorder(chromium, tmp_path / "player.jsonl", period=0.1)
    recorder.start()
    deadline = time.monotonic() + 60
    while recorder.failure is None and time.monotonic() < deadline:
        time.sleep(0.1)
    recorder.stop()
    assert "has not answered for" in (recorder.failure or "")


ASKS = {
    "alert": "setInterval(() => alert('hi'), 10)",
    "confirm and prompt": "setInterval(() => { confirm('a'); prompt('b') }, 10)",
    "beforeunload": "onbeforeunload = (e) => { e.preventDefault(); e.returnValue = 'stay' }",
    "windows": "setInterval(() => open('data:text/html,above'), 10)",
    "print": "setTimeout(() => print(), 20)",
    "file": "setInterval(() => { Object.assign(document.createElement('a'), "
    "{ download: 'x', href: 'data:,x' }).click() }, 50)",
    "leaves": "setInterval(() => { location = 'data:text/html,' + Math.random() }, 20)",
}


@pytest.mark.parametrize("name", ASKS)
def test_a_page_that_asks_or_sends_keeps_nobody_waiting(chromium: Browser, name: str) -> None:
    """It is answered or not, but never beyond the limits; no window or file comes of it."""
    begun = time.monotonic()
    try:
        chromium.open(page(ASKS[name]), timeout=10)
        for _ in range(10):
            chromium.evaluate("() => 1")
            time.sleep(0.05)
        chromium.open("data:text/html,<p>next", timeout=10)
    except BrowserError:
        pass
    assert time.monotonic() - begun < 2 * (10 + LIMIT_S) + 11 * LIMIT_S
    assert not [p for p in chromium._profile.parent.rglob("*") if re.fullmatch(r"x|x\.txt|.*\.crdownload", p.name)]


def test_no_window_comes_above_the_recorded_one(chromium: Browser) -> None:
    chromium.open("data:text/html,<button onclick='window.got = window.open(\"data:text/html,above\")'>go</button>")
    assert chromium.click("button")
    assert chromium.evaluate("() => window.got === null")


GIANTS = {
    "text": "window.asked = 'x'.repeat(1 << 28)",
    "list": "window.asked = new Array(1 << 22).fill('abcdefgh')",
    "samples": "setTimeout(() => { window.__sojourn = { drain: () => ['x'.repeat(1 << 26)] } }, 0)",
    "deep": "let a = []; for (let i = 0; i < 200000; i++) a = [a]; window.asked = a",
    "never ends": "window.asked = { toJSON: () => ({ a: window.asked }) }",
    "other JSON": "JSON.stringify = () => 'x'.repeat(1 << 27); window.asked = 'y'.repeat(1 << 27)",
}


@pytest.mark.parametrize("name", GIANTS)
def test_a_giant_answer_does_not_fill_our_memory(chromium: Browser, name: str) -> None:
    chromium.open(page(GIANTS[name]))
    before = psutil.Process().memory_info().rss
    with pytest.raises(BrowserError):
        for _ in range(100):  # a page may change itself a moment after it was loaded
            chromium.evaluate(DRAIN if name == "samples" else "() => window.asked")
    assert psutil.Process().memory_info().rss - before < 64 << 20
