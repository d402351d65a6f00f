# SPDX-License-Identifier: Apache-2.0
"""A user's visits of pages: open one, wait until it has loaded, read it, open the next."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

from sojourn.apps.base import ServiceError
from sojourn.apps.browsers.browser import Browser, BrowserEndedError, BrowserError
from sojourn.apps.standins.web.pages import think_times
from sojourn.apps.standins.web.site import SitePage, WebSite
from sojourn.captures.player import PlayerSample

SCRIPT = Path(__file__).parents[3] / "captures" / "page_load.js"
"""Injected into every page before its own scripts run."""
LOADS = "player.jsonl"
"""The file of the run with a line per load."""
PATIENCE_S = 60.0
"""A user leaves a page that has not loaded by then."""
_STATE = "() => (window.__sojournLoad ? window.__sojournLoad() : { at: location.href })"
_OPEN = "() => {{ location.href = {url}; }}"
#: Chromium's page that can close all connections, so that each page opens its own, and where the user is between pages.
_SOCKETS, _CLOSE = "chrome://net-internals/#sockets", "() => { chrome.send('flushSocketPools'); }"
_BLANK = "about:blank"
_ERROR_PAGE = "chrome-error:"
_POLL_S = 0.1
#: From a phase's start to its first load, s: by then the contender's data flow.
_FIRST_S = 1.0
#: From a page's load event to the reading of its timings, s: its last paint may be later.
_SETTLED_S = 0.3


class PageVisits:
    """Visits pages in a thread while phases last, and writes a line per load.

    Every phase begins with the first page: all phases have the same pages in the same order, and a page that has not
    loaded when its phase ends is left.
    """

    def __init__(self, browser: Browser, site: WebSite, run: Path, seed: int) -> None:
        """`seed` decides how long the user reads; `run` is the folder of LOADS."""
        self._browser, self._site, self._run, self._seed = browser, site, run, seed
        self._ending, self._phase = threading.Event(), threading.Event()
        self._ended_phases = 0
        self._failure: str | None = None
        self._shown = 0  # number of the page on the screen
        self._thread = threading.Thread(target=self._visit_all, name="page-visits", daemon=True)

    def warm_up(self, timeout: float) -> None:
        """Load the first page, which is not counted. Raises ServiceError if it does not load within `timeout` s."""
        self._leave()
        deadline = time.monotonic() + timeout
        known = self._load(self._site.pages[0], lambda: time.monotonic() > deadline)
        if known.get("load") is None:
            why = known.get("failed") or f"not loaded after {timeout:g} s"
            raise ServiceError(f"no page: {self._url(self._site.pages[0])}: {why}", code="no-picture")

    def start(self) -> None:
        self._thread.start()

    def begin_phase(self) -> None:
        """Visit the first page."""
        self._phase.set()

    def end_phase(self) -> None:
        """Leave the page, and record its load as it is."""
        self._phase.clear()
        self._ended_phases += 1

    def stop(self) -> None:
        """Leave the page, and record its load as it is."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    @property
    def failure(self) -> str | None:
        """Why no more pages are visited; None while they are."""
        return self._failure

    @property
    def waits(self) -> int:
        """Always 0: a page does not play."""
        return 0

    @property
    def latest(self) -> PlayerSample:
        """What is on the screen, for the display."""
        return PlayerSample(
            t=time.time(), playing=True, quality=f"page {self._shown}", width=0, height=0, currentTime=0, buffer=0,
            readyState=4, totalFrames=0, droppedFrames=0, waiting=False,
        )  # fmt: skip

    def _url(self, page: SitePage) -> str:
        return f"https://{page.host}{page.path}"

    def _visit_all(self) -> None:
        try:
            self._leave()
            with (self._run / LOADS).open("a", buffering=1) as file:
                while not self._ending.is_set():
                    if self._phase.wait(_POLL_S):
                        self._visit_phase(lambda line: file.write(json.dumps(line) + "\n"))
        except (BrowserError, OSError) as error:
            self._failure = str(error)

    def _visit_phase(self, write: Callable[[Mapping[str, Any]], object]) -> None:
        phase = self._ended_phases

        def over() -> bool:
            return self._ending.is_set() or self._ended_phases > phase

        thinks = think_times(self._seed)
        self._wait(_FIRST_S, over)
        for number, page in cycle(enumerate(self._site.pages, 1)):
            if over():
                return
            self._shown = number
            known = self._load(page, over)
            if known.get("load") is not None:
                self._wait(next(thinks), over)
                known |= self._state()
            write({"t": known["start"], "event": "load", "detail": self._record(number, page, known)})
            self._leave()

    def _wait(self, seconds: float, over: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not over():
            self._ending.wait(min(_POLL_S, left))

    def _load(self, page: SitePage, over: Callable[[], bool]) -> dict[str, Any]:
        """Open a page and return its timings once it has loaded, cannot be loaded, `over`, or the user leaves it."""
        begun, known = time.time(), dict[str, Any]()
        deadline = time.monotonic() + PATIENCE_S
        try:
            self._browser.evaluate(_OPEN.format(url=json.dumps(self._url(page))))
        except BrowserEndedError:
            raise
        except BrowserError:  # the navigation was faster than the answer
            pass
        while time.monotonic() < deadline and not over():
            known = self._state() or known
            if known.get("failed") or (known.get("load") and known["now"] - known["load"] >= 1000 * _SETTLED_S):
                break
            time.sleep(_POLL_S)
        return {"start": begun, **known, "until": time.time()}

    def _state(self) -> dict[str, Any]:
        """Return the timings of the page so far; empty while the browser navigates to it."""
        try:
            known = dict(self._browser.evaluate(_STATE))
        except BrowserEndedError:
            raise
        except BrowserError:  # a navigation
            return {}
        if "at" in known:
            failed = str(known["at"]).startswith(_ERROR_PAGE)
            return {"failed": "the browser shows an error page"} if failed else {}
        return {**known, "start": known["start"] / 1e3}

    def _record(self, number: int, page: SitePage, known: Mapping[str, Any]) -> dict[str, Any]:
        paths = {*known.get("done", ()), *(page.unseen if known.get("load") is not None else ())}
        done = [size for path, size in page.sizes.items() if path in paths]
        times = {f"{name}_ms": _ms(known.get(name)) for name in ("ttfb", "fcp", "lcp", "dcl", "load")}
        return {
            "page": number, "url": self._url(page), "requests": len(done), "bytes": sum(done), **times,
            "until": known["until"], "errors": known.get("errors", 0), "failed": known.get("failed"),
        }  # fmt: skip

    def _leave(self) -> None:
        """Close all connections, which also ends what still loads, and show nothing."""
        self._browser.open(_SOCKETS)
        self._browser.evaluate(_CLOSE)
        self._browser.open(_BLANK)


def _ms(time_ms: float | None) -> float | None:
    return None if time_ms is None else round(time_ms, 3)
