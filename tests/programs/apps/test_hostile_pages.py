# SPDX-License-Identifier: Apache-2.0
"""Pages that hang, ask, open windows, answer too much or send files: the browser ends within its limit and says so."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
from _pytest.mark import ParameterSet

from sojourn.apps.base import Service, ServiceError, Stage
from sojourn.apps.browsers import browser
from sojourn.apps.browsers.browser import Browser, BrowserError, flags
from sojourn.apps.browsers.drivers import DRIVERS
from sojourn.apps.iptv import Iptv
from sojourn.apps.jitsi import Jitsi
from sojourn.apps.meet import Meet
from sojourn.apps.meeting import Meeting
from sojourn.apps.o2tv import O2tv
from sojourn.apps.sledovanitv import SledovaniTV
from sojourn.apps.teams import Teams
from sojourn.apps.youtube import YouTube
from sojourn.captures.player import DRAIN, SCRIPT, PlayerRecorder
from sojourn.hardware.machine.place import LOCAL
from tests.processes import of_name
from tests.programs.apps.test_iptv import CHANNEL
from tests.refusals import refusal
from tests.tiers import first

#: Enough for a slow machine to answer what is not hostile, and to load it; for what never answers, and never loads.
LIMIT_S, LOAD_S = 4.0, 8.0
NEVER_S = 2.0


@pytest.fixture(params=DRIVERS)
def chromium(request: pytest.FixtureRequest, display: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    monkeypatch.setattr(browser, "_ANSWER_S", LIMIT_S)
    monkeypatch.setattr(browser, "_CLOSE_S", 2)
    chromium = DRIVERS[request.param](LOCAL, display, flags(width=640, height=360), scripts=[SCRIPT])
    yield chromium
    chromium.close()


def alternately(names: Iterable[str]) -> list[ParameterSet]:
    """Each with one driver, in turn, and with the others in nightly tests."""
    return [
        pytest.param(name, driver, marks=[pytest.mark.nightly] if (at + place) % len(DRIVERS) else [])
        for at, name in enumerate(names)
        for place, driver in enumerate(DRIVERS)
    ]


def page(script: str) -> str:
    return f"data:text/html,<p>film</p><script>{script}</script>"


#: Name → what a page does once it is loaded.
HANGS = {
    "endless loop": "setTimeout(() => { for (;;); }, 1000)",
    "endless loop of answers": "Object.defineProperty(window, 'asked', { get() { for (;;); } })",
    "never answers": "window.asked = new Promise(() => {})",
}


@pytest.mark.parametrize(("name", "chromium"), alternately(HANGS), indirect=["chromium"])
def test_a_question_has_a_limit_after_which_the_browser_ends(
    chromium: Browser, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = time.monotonic()
    chromium.open(page(HANGS[name]))
    monkeypatch.setattr(browser, "_ANSWER_S", NEVER_S)
    with refusal(BrowserError, "no-answer", "killed"):
        while True:  # the page begins to hang between two questions
            chromium.evaluate("() => window.asked")
            assert time.monotonic() - begun < 60
    with refusal(BrowserError, "no-answer", "killed"):  # at once
        chromium.evaluate("() => 1")
    mine = str(chromium._profile)
    assert not [p for p in psutil.process_iter(["cmdline"]) if any(mine in a for a in p.info["cmdline"] or ())]


@pytest.mark.parametrize("chromium", first(1, DRIVERS), indirect=True)
def test_the_samples_say_that_the_page_hangs(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chromium.open(page(HANGS["endless loop"]))
    monkeypatch.setattr(browser, "_ANSWER_S", NEVER_S)
    recorder = PlayerRecorder(chromium, tmp_path / "player.jsonl", period=0.1)
    recorder.start()
    deadline = time.monotonic() + 60
    while recorder.failure is None and time.monotonic() < deadline:
        time.sleep(0.1)
    recorder.stop()
    assert "did not answer for" in (recorder.failure or "")


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


@pytest.mark.parametrize(("name", "chromium"), alternately(ASKS), indirect=["chromium"])
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


@pytest.mark.parametrize(("name", "chromium"), alternately(GIANTS), indirect=["chromium"])
def test_a_giant_answer_does_not_fill_our_memory(chromium: Browser, name: str) -> None:
    chromium.open(page(GIANTS[name]))
    before = psutil.Process().memory_info().rss
    with pytest.raises(BrowserError):
        for _ in range(100):  # a page may change itself a moment after it was loaded
            chromium.evaluate(DRAIN if name == "samples" else "() => window.asked")
    assert psutil.Process().memory_info().rss - before < 64 << 20


LATER = "setTimeout(() => { for (;;); }, 1500)"
#: When a site begins to hang: as its page is loaded, once it asks for something, once there is what one came for.
LOADS = "<script>for (;;);</script>"
ASKS_WHO = f"<form><input type=password><button>in</button></form><script>{LATER}</script>"
PLAYS = f"{CHANNEL}<script>document.querySelector('video').onplaying = () => {{ {LATER} }}</script>"
LETS_IN = (
    "<button data-testid='prejoin.joinMeeting' data-tid='prejoin-join-button' onclick='for (;;);'>Join now</button>"
)
MEETS = f"<button id='hangup-button' class='hangup-button' aria-label='Leave call'>out</button><script>{LATER}</script>"
#: Service → moment → page.
MOMENTS: dict[type[Service], dict[str, str]] = {
    **{channel: {"loads": LOADS, "asks who comes": ASKS_WHO, "plays": PLAYS} for channel in (O2tv, SledovaniTV)},
    YouTube: {"loads": LOADS, "asks who comes": f"<button>Accept all</button><script>{LATER}</script>", "plays": PLAYS},
    **{meeting: {"loads": LOADS, "asks who comes": LETS_IN, "plays": MEETS} for meeting in (Jitsi, Meet, Teams)},
}
MEETING = {Jitsi: "https://meet.test/Room", Meet: Meet.example, Teams: "https://teams.live.com/meet/1"}


@pytest.fixture
def site() -> Iterator[Callable[[str], str]]:
    """Let a site show one page at all its addresses; its own address."""
    shown = [""]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(shown[0].encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

        def show(text: str) -> str:
            shown[0] = text
            return f"http://127.0.0.1:{server.server_address[1]}/"

        yield show
        server.shutdown()


def _tried_always(kind: type[Service], moment: str) -> bool:
    """A moment of each kind of site; the others share its code."""
    moments = list(MOMENTS[kind])
    return kind in (O2tv, YouTube, Jitsi) and moments.index(moment) == list(MOMENTS).index(kind) % len(moments)


@pytest.mark.parametrize(
    ("kind", "moment", "driver"),
    [
        pytest.param(kind, moment, driver, marks=[] if _tried_always(kind, moment) else [pytest.mark.nightly])
        for kind, moments in MOMENTS.items()
        for moment, driver in zip(moments, itertools.cycle(DRIVERS))
    ],
)
def test_a_site_that_hangs_ends_the_run_with_its_reason(
    kind: type[Service], moment: str, driver: str, site: Callable[[str], str], display: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Whatever it waits for; and then all is closed within the limits too."""
    limit_s, load_s = (NEVER_S, NEVER_S) if moment == "loads" else (LIMIT_S, LOAD_S)
    monkeypatch.setattr(browser, "_ANSWER_S", limit_s)
    monkeypatch.setattr(browser, "_CLOSE_S", 2)
    address = site(MOMENTS[kind][moment])
    service: Service
    if issubclass(kind, Meeting):
        service = kind(MEETING[kind], driver=driver, recorder=None)
        monkeypatch.setattr(service, "address", lambda guest: address)
        service.prepare()
    elif issubclass(kind, YouTube):
        service = kind(live=True, video_id="aqz-KE-bpKQ", driver=driver)
        monkeypatch.setattr(service, "address", lambda: (address, ()))
    else:
        assert issubclass(kind, Iptv)
        service = kind(live=True, url=address, driver=driver)
    monkeypatch.setattr(service, "_driver", partial(DRIVERS[driver], load_s=load_s))
    begun = time.monotonic()
    try:
        service.start(Stage(LOCAL, LOCAL, "127.0.0.1", tmp_path, display))
        while service.failure is None and time.monotonic() < begun + 60:
            time.sleep(0.1)
        told = service.failure or "nothing"
    except ServiceError as refused:
        told = str(refused)
    finally:
        service.stop()
    assert "\n" not in told and re.search("did not answer|requires a login|not reachable", told)
    assert time.monotonic() - begun < 60
    assert not of_name(psutil.Process().children(recursive=True), "chromium", "chromedriver", "node")
