# SPDX-License-Identifier: Apache-2.0
"""A real Chromium on a given X display at a given place, driven through a handful of calls."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil
from playwright.sync_api import BrowserContext, Error, Playwright, sync_playwright
from playwright.sync_api import Page as PlaywrightPage

from harness.place import Place
from harness.scratch import scratch_folder

CHROMIUM = Path("/usr/bin/chromium")
T = TypeVar("T")
_CLOSE_S = 15
_LOG = logging.getLogger("sojourn.browser")


class BrowserError(RuntimeError):
    """The browser is missing, did not start, or could not load a page."""


def check() -> None:
    """Raise BrowserError with the fix when Chromium is missing."""
    if not os.access(CHROMIUM, os.X_OK):
        raise BrowserError(f"the browser is missing: {CHROMIUM} (apt install chromium)")


class Driver(Protocol):
    """What services need of a browser; every call may come from any thread."""

    def open(self, url: str, timeout: float = 30) -> None: ...

    def evaluate(self, script: str) -> Any: ...

    def click(self, selector: str, timeout: float = 2) -> bool: ...

    def fill(self, selector: str, text: str, timeout: float = 2) -> bool: ...

    @property
    def version(self) -> str: ...

    def close(self) -> None: ...


def flags(
    *,
    width: int,
    height: int,
    hosts: Mapping[str, str] | None = None,
    spki: str | None = None,
    quic: str | None = None,
) -> list[str]:
    """Chromium's command line: a kiosk window of `width` x `height` px with software rendering.

    `hosts` maps names to addresses, `spki` is the public key (base64 SHA-256) that is trusted, `quic` the
    host:port that is spoken to by HTTP/3 only.
    """
    chosen = [
        "--kiosk",
        # Without a window manager a window as large as the screen comes out 1 px short: ask for 1 px more.
        "--window-position=0,0",
        f"--window-size={width + 1},{height + 1}",
        "--force-device-scale-factor=1",
        "--disable-gpu",  # the software compositor: a quarter of what GL in software costs
        "--autoplay-policy=no-user-gesture-required",
        "--disable-background-timer-throttling",
        "--mute-audio",
        "--noerrdialogs",
        "--test-type",  # no bar that warns of unusual flags above the page
    ]
    if hosts:
        chosen.append("--host-resolver-rules=" + ",".join(f"MAP {name} {to}" for name, to in hosts.items()))
    if spki:
        chosen.append(f"--ignore-certificate-errors-spki-list={spki}")
    if quic:
        chosen.append(f"--origin-to-force-quic-on={quic}")
    return chosen


class Browser:
    """Chromium driven by Playwright, which stays in the thread that made it; a fresh profile each time."""

    def __init__(self, place: Place, display: str, arguments: list[str], *, script: Path | None = None) -> None:
        """Start the browser; `script` is run in every page before the page's own.

        Raises BrowserError when Chromium is missing or does not start.
        """
        check()
        self._home = scratch_folder("-browser")
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="browser")
        self._playwright: Playwright | None = None
        self._context: BrowserContext | None = None
        self._closed = False
        try:
            self._do(lambda: self._launch(place, display, arguments, script))
        except Error as error:
            self.close()
            raise BrowserError(f"Chromium did not start on display {display}: {_reason(error)}") from error
        except BaseException:
            self.close()
            raise

    def _launch(self, place: Place, display: str, arguments: list[str], script: Path | None) -> None:
        wrapper = self._home / "chromium"
        # exec keeps the descriptors 3 and 4, through which Playwright talks to the browser.
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(place.argv([str(CHROMIUM)]))} "$@"\n')
        wrapper.chmod(0o700)
        root = place.run(["id", "-u"]).strip() == "0"
        self._playwright = sync_playwright().start()
        self._context = self._playwright.chromium.launch_persistent_context(
            self._home / "profile",
            executable_path=wrapper,
            headless=False,
            chromium_sandbox=not root,  # Chromium refuses its sandbox to root
            no_viewport=True,  # the page is as large as the window
            args=arguments,
            ignore_default_args=["--enable-automation", "--enable-unsafe-swiftshader"],
            env={**os.environ, "DISPLAY": display, "DBUS_SESSION_BUS_ADDRESS": "disabled:"},
            handle_sigint=False,  # Ctrl-C is the harness's to handle: it ends things in order
            handle_sigterm=False,
            handle_sighup=False,
        )
        if script:
            self._context.add_init_script(path=script)

    def _do(self, job: Callable[[], T]) -> T:
        if self._closed:
            raise BrowserError("the browser is closed")
        return self._thread.submit(job).result()

    @property
    def _page(self) -> PlaywrightPage:
        if self._context is None:
            raise BrowserError("the browser is closed")
        return self._context.pages[0] if self._context.pages else self._context.new_page()

    def open(self, url: str, timeout: float = 30) -> None:
        """Load `url`; returns once its document is there. Raises BrowserError with the network's reason."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._do(lambda: self._page.goto(url, wait_until="domcontentloaded", timeout=timeout * 1000))
                return
            except Error as error:
                # A new lab's interfaces still get their addresses; Chromium then drops what it loads.
                again = "ERR_NETWORK_CHANGED" in str(error) or "chrome-error://" in str(error)
                if again and time.monotonic() < deadline:
                    time.sleep(0.3)
                    continue
                raise BrowserError(f"{url} is not reachable: {_reason(error)}") from error

    def evaluate(self, script: str) -> Any:
        """Run a JavaScript function in the page and return its JSON-like result. Raises BrowserError."""
        try:
            return self._do(lambda: self._page.evaluate(script))
        except Error as error:
            raise BrowserError(f"the page did not answer: {_reason(error)}") from error

    def click(self, selector: str, timeout: float = 2) -> bool:
        """Click the first visible match with the real pointer; False without one within `timeout` s."""
        try:
            found = self._do(lambda: self._page.locator(f"{selector} >> visible=true").first)
            self._do(lambda: found.click(timeout=timeout * 1000))
        except Error:
            return False
        return True

    def fill(self, selector: str, text: str, timeout: float = 2) -> bool:
        """Type `text` into the first visible match; False without one. `text` may be secret: no error shows it."""
        try:
            found = self._do(lambda: self._page.locator(f"{selector} >> visible=true").first)
            self._do(lambda: found.fill(text, timeout=timeout * 1000))
        except Error:
            return False
        return True

    def screenshot(self, path: Path) -> None:
        """Save what the page shows as PNG (for errors; evidence is recorded from the display)."""
        self._do(lambda: self._page.screenshot(path=path))

    @property
    def version(self) -> str:
        """Chromium's version."""

        def ask() -> str:
            browser = self._context.browser if self._context else None
            return f"Chromium {browser.version}" if browser else "Chromium"

        return self._do(ask)

    def close(self) -> None:
        """End the browser and remove its profile; may be called twice."""

        def end() -> None:
            try:
                if self._context:
                    self._context.close()
            finally:
                self._context = None
                if self._playwright:
                    self._playwright.stop()
                    self._playwright = None

        if self._closed:
            return
        self._closed = True
        ending = self._thread.submit(end)
        try:
            ending.result(_CLOSE_S)
        except TimeoutError:  # a page that hangs: without its browser every call comes back
            self._kill_rest()
            wait([ending], _CLOSE_S)
        except Exception as error:  # it had crashed, or Ctrl-C took the driver; the rest ends below
            _LOG.info("the browser did not close by itself: %s", error)
        self._thread.shutdown(wait=False)
        self._kill_rest()
        shutil.rmtree(self._home, ignore_errors=True)

    def _kill_rest(self) -> None:
        """End what still runs with our profile, known by its path."""
        ours = f"--user-data-dir={self._home}"
        rest = []
        for process in psutil.process_iter(["cmdline"]):
            if any(argument.startswith(ours) for argument in process.info["cmdline"] or ()):
                with contextlib.suppress(psutil.NoSuchProcess):  # it may be going by itself
                    process.kill()
                rest.append(process)
        psutil.wait_procs(rest, timeout=5)


def _reason(error: Error) -> str:
    """The first line of Playwright's message, or Chromium's own complaint about the display."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    chromium = [line for line in lines if "Missing X server" in line]
    return (chromium or lines or [type(error).__name__])[0]
