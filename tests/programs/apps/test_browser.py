# SPDX-License-Identifier: Apache-2.0
"""A real, visible Chromium on a screen of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cv2
import psutil
import pytest
from playwright.sync_api import sync_playwright

from sojourn.apps.browsers import browser, selenium_driver
from sojourn.apps.browsers.browser import Browser, BrowserError, flags, named
from sojourn.apps.browsers.drivers import DRIVERS
from sojourn.apps.browsers.playwright_driver import PlaywrightBrowser
from sojourn.apps.browsers.selenium_driver import SeleniumBrowser
from sojourn.hardware.machine.errors import Code
from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.scratch import scratch_file
from tests.processes import of_name
from tests.refusals import refusal

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


@pytest.fixture(params=DRIVERS)
def drive(request: pytest.FixtureRequest) -> type[Browser]:
    """Chromium by each driver."""
    return DRIVERS[request.param]


def ours() -> set[int]:
    """Browsers with a profile of ours, and drivers."""
    (kept := scratch_file(".mark")).unlink()
    mark = f"--user-data-dir={kept.parent}/"
    browsers = {p.pid for p in psutil.process_iter(["cmdline"]) if any(mark in a for a in p.info["cmdline"] or ())}
    return browsers | {p.pid for p in of_name(psutil.Process().children(recursive=True), "chromedriver", "node")}


def test_no_page_of_a_stranger_is_opened_without_a_sandbox(
    drive: type[Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "sandbox_refusal", lambda: "a browser's sandbox needs user namespaces")
    drive.check()
    with refusal(BrowserError, "insecure", "--live, --url=https://…: a browser's sandbox needs user namespaces"):
        drive.check(stranger=True)


def test_window_fills_the_screen_answers_any_thread_and_leaves_nothing(
    drive: type[Browser], display: str, tmp_path: Path
) -> None:
    before = ours()
    script = tmp_path / "early.js"
    script.write_text("window.early = true")
    chromium = drive(HERE, display, flags(width=640, height=360), scripts=[script])
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
        assert len(ours()) > len(before)
        with refusal(BrowserError, "unreachable", "https://www.youtube.invalid/", "ERR_NAME_NOT_RESOLVED"):
            chromium.open("https://www.youtube.invalid/")
        with refusal(BrowserError, "no-answer"):
            chromium.evaluate("() => nothing.there")
    finally:
        chromium.close()
        chromium.close()
    assert ours() == before
    with refusal(BrowserError, "closed"):
        chromium.evaluate("() => 1")


PAGE = """data:text/html,
<div id=cover style='position:fixed;inset:0' onclick='this.remove()'></div>
<button class=b style='display:none' onclick='window.hit=1'></button><button class=b onclick='window.hit=2'>go</button>
<input value=old oninput='window.typed=this.value'>"""


def test_answers_are_the_same_from_each_driver(drive: type[Browser], display: str, tmp_path: Path) -> None:
    chromium = drive(HERE, display, flags(width=640, height=360))
    try:
        chromium.open(PAGE)
        assert chromium.evaluate("() => undefined") is None
        assert chromium.evaluate("// a comment first\n() => ({ a: [1, 1.5, null], b: 'text' })\n// and last") == {
            "a": [1, 1.5, None],
            "b": "text",
        }
        assert chromium.evaluate("() => new Promise((done) => setTimeout(() => done('late'), 50))") == "late"
        with refusal(BrowserError, "no-answer", ": refused"):
            chromium.evaluate("() => Promise.reject(new Error('refused'))")
        assert not chromium.click(".b", timeout=0.3)  # covered
        assert chromium.click("#cover")
        assert chromium.click(".b") and chromium.evaluate("() => window.hit") == 2
        assert chromium.fill("input", "new") and chromium.evaluate("() => window.typed") == "new"
        assert not chromium.fill("textarea", "new", timeout=0.1)
        assert chromium.keep_shown(tmp_path)
        assert cv2.imread(str(tmp_path / "logs" / "page.png")).shape == (361, 641, 3)
    finally:
        chromium.close()


def test_a_page_that_hangs_does_not_keep_the_browser_open(
    drive: type[Browser], display: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "_CLOSE_S", 2)
    before = ours()
    chromium = drive(HERE, display, flags(width=640, height=360))
    chromium.open("data:text/html,<p>film")
    hanging = threading.Thread(target=lambda: suppressed(chromium), daemon=True)
    hanging.start()
    chromium.close()
    hanging.join(10)
    assert not hanging.is_alive() and ours() <= before


def suppressed(chromium: Browser) -> None:
    with contextlib.suppress(BrowserError, RuntimeError):
        chromium.evaluate("() => { for (;;); }")


def test_missing_chromium_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "CHROMIUM", Path("/nonexistent/chromium"))
    with refusal(BrowserError, "missing-program", "/nonexistent/chromium", "apt install chromium"):
        PlaywrightBrowser(HERE, ":1", [])


#: The program itself: /usr/bin/chromium is a script that starts it.
OTHER = Path("/usr/lib/chromium/chromium")


@pytest.fixture
def site() -> Iterator[str]:
    """A page that keeps what it is told, and shows it."""
    text = b"""<p>film</p><script>
      const kept = [localStorage.getItem('who'), document.cookie].join(' ');
      document.querySelector('p').textContent = kept;
      document.title = navigator.languages.join(' ');
    </script>"""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture
def profile(tmp_path: Path, site: str) -> Path:
    """What somebody left who was at the site with a browser of his own."""
    folder = tmp_path / "mine"
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            folder, executable_path=browser.CHROMIUM, args=["--disable-gpu"]
        )
        page = context.pages[0]
        page.goto(site)
        page.evaluate("() => { localStorage.setItem('who', 'ann'); document.cookie = 'seen=yes; max-age=9999' }")
        context.close()
    return folder


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_a_profile_of_the_users_is_read_by_another_browser_and_not_written_to(
    drive: type[Browser], display: str, site: str, profile: Path
) -> None:
    before = content(profile)
    chromium = drive(HERE, display, flags(width=640, height=360), program=OTHER, profile=profile)
    copy = chromium._profile
    try:
        chromium.open(site)
        assert chromium.evaluate("() => document.body.innerText.trim()") == "ann seen=yes"
        assert chromium.evaluate("() => document.title") == "en-US"
        assert chromium.version == named(OTHER) and copy.exists()
        chromium.evaluate("() => localStorage.setItem('who', 'bo')")
    finally:
        chromium.close()
    assert content(profile) == before and not copy.exists()


def test_a_profile_that_is_open_elsewhere_is_refused(drive: type[Browser], display: str, profile: Path) -> None:
    (profile / "SingletonLock").symlink_to(f"{socket.gethostname()}-{os.getpid()}")
    with refusal(BrowserError, "in-use", f"--profile: {profile} ", f" process {os.getpid()}"):
        drive.check(profile=profile)


@pytest.fixture
def programs() -> Iterator[Path]:
    """A folder whose programs everybody may run."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (
            "echo Mozilla Firefox 140.12.0esr",
            ("unsupported", "'Mozilla Firefox 140.12.0esr'"),
        ),
        ("true", ("unsupported", "'nothing'")),
        ("echo no libraries >&2; exit 127", ("not-executable", "no libraries")),
    ],
)
def test_a_program_that_is_no_chromium_is_refused(programs: Path, says: str, why: tuple[Code, str]) -> None:
    program = programs / "browser"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    with refusal(BrowserError, *why, f"--browser={program}: "):
        PlaywrightBrowser.check(program=program)


@pytest.mark.parametrize("said", ["Google Chrome 143.0.7499.40 ", "Microsoft Edge 143.0.3650.66 unknown"])
def test_others_of_the_family_are_known_by_their_names(programs: Path, said: str) -> None:
    program = programs / "browser"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    assert named(program) == " ".join(said.split()[:3])


def test_missing_chromedriver_names_the_option_and_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selenium_driver, "CHROMEDRIVER", Path("/nonexistent/chromedriver"))
    with refusal(
        BrowserError, "missing-program", "--driver=selenium: /nonexistent/chromedriver ", "apt install chromium-driver"
    ):
        SeleniumBrowser.check()
    PlaywrightBrowser.check()


def test_missing_screen_is_named(drive: type[Browser], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selenium_driver, "_START_S", 3)
    with refusal(BrowserError, "not-started", " :9999: ", "X server"):
        drive(HERE, ":9999", flags(width=640, height=360))
