# SPDX-License-Identifier: Apache-2.0
"""A real, visible Chromium on a screen of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from apps import browser
from apps.browser import Browser, BrowserError, flags
from harness.place import Place

HERE = Place("client")


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    if not shutil.which("Xvfb"):
        pytest.fail("Xvfb is missing: apt install xvfb")
    command = ["Xvfb", "-displayfd", "1", "-screen", "0", "640x360x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as screen:
        assert screen.stdout
        yield ":" + screen.stdout.readline().strip()
        screen.terminate()


def ours() -> list[int]:
    mark = f"--user-data-dir={Path(tempfile.gettempdir()) / 'sojourn-browser-'}"
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(argument.startswith(mark) for argument in process.info["cmdline"] or ()):
            found.append(process.pid)
    return found


def test_window_fills_the_screen_answers_any_thread_and_leaves_nothing(display: str, tmp_path: Path) -> None:
    before = ours()
    script = tmp_path / "early.js"
    script.write_text("window.early = true")
    chromium = Browser(HERE, display, flags(width=640, height=360), script=script)
    try:
        chromium.open("data:text/html,<button onclick='window.hit=event.isTrusted'>go</button>")
        assert chromium.evaluate("() => [innerWidth, innerHeight]") == [641, 361]
        assert chromium.evaluate("() => window.early") is True
        assert chromium.click("button")
        assert not chromium.click("#absent", timeout=0.1)
        answers: list[object] = []
        thread = threading.Thread(target=lambda: answers.append(chromium.evaluate("() => window.hit")))
        thread.start()
        thread.join(10)
        assert answers == [True]
        assert chromium.version.startswith("Chromium 1")
        with pytest.raises(BrowserError, match=r"is not reachable: .*ERR_NAME_NOT_RESOLVED"):
            chromium.open("https://www.youtube.invalid/")
        with pytest.raises(BrowserError, match="did not answer"):
            chromium.evaluate("() => nothing.there")
    finally:
        chromium.close()
        chromium.close()
    assert ours() == before
    with pytest.raises(BrowserError, match="closed"):
        chromium.evaluate("() => 1")


def test_missing_chromium_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "CHROMIUM", Path("/nonexistent/chromium"))
    with pytest.raises(BrowserError, match=r"/nonexistent/chromium \(apt install chromium\)"):
        Browser(HERE, ":1", [])


def test_missing_screen_is_named() -> None:
    with pytest.raises(BrowserError, match=r"Chromium did not start on display :9999: .*X server"):
        Browser(HERE, ":9999", flags(width=640, height=360))
