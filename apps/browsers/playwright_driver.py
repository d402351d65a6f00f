# SPDX-License-Identifier: Apache-2.0
"""Chromium driven by Playwright."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, CDPSession, Error, Page, Playwright, sync_playwright

from sojourn.apps.browsers.browser import Browser, BrowserError
from sojourn.hardware.machine.place import ENVIRONMENT, Place


class PlaywrightBrowser(Browser):
    """See Browser."""

    errors = (Error,)
    #: Further arguments of Playwright's `launch_persistent_context`.
    further: Mapping[str, Any] = {}
    _playwright: Playwright | None = None
    _context: BrowserContext | None = None
    _devtools: CDPSession | None = None

    def _launch(self, place: Place, arguments: list[str], scripts: Sequence[Path]) -> None:
        chromium = self._home / "chromium"
        # exec keeps descriptors 3 and 4, the driver's connection to the browser: there is no port.
        command = shlex.join(place.argv([str(self._program)]))
        chromium.write_text(f'#!/bin/sh\nexec {command} "$@" 2>>{shlex.quote(str(self._log))}\n')
        chromium.chmod(0o700)
        self._playwright = sync_playwright().start()
        self._context = self._playwright.chromium.launch_persistent_context(
            self._profile,
            accept_downloads=False,
            executable_path=chromium,
            headless=False,
            chromium_sandbox=True,  # the arguments disable it where there is none
            no_viewport=True,  # the page is as large as the window
            args=arguments,
            ignore_default_args=["--disable-popup-blocking", "--enable-automation", "--enable-unsafe-swiftshader"],
            env={**ENVIRONMENT},
            handle_sigint=False,  # the harness handles Ctrl-C and stops everything in order
            handle_sigterm=False,
            handle_sighup=False,
            **self.further,
        )
        for script in scripts:
            self._context.add_init_script(path=script)

    @property
    def _page(self) -> Page:
        if self._context is None:
            raise BrowserError("the browser is closed", code="closed")
        return self._context.pages[0] if self._context.pages else self._context.new_page()

    def _goto(self, url: str, timeout: float) -> None:
        self._page.goto(url, wait_until="domcontentloaded", timeout=timeout * 1000)

    def _evaluate(self, script: str) -> Any:
        return self._page.evaluate(script)

    def _click(self, selector: str, timeout: float) -> None:
        self._page.locator(f"{selector} >> visible=true").first.click(timeout=timeout * 1000)

    def _fill(self, selector: str, text: str, timeout: float) -> None:
        self._page.locator(f"{selector} >> visible=true").first.fill(text, timeout=timeout * 1000)

    def _command(self, method: str, parameters: dict[str, Any]) -> Mapping[str, Any]:
        if self._devtools is None:
            self._devtools = self._page.context.new_cdp_session(self._page)
        answer: Mapping[str, Any] = self._devtools.send(method, parameters)
        return answer

    def _version(self) -> str:
        browser = self._context.browser if self._context else None
        return browser.version if browser else "unknown"

    @property
    def driver(self) -> str:
        return f"Playwright {version('playwright')}"

    def _end(self) -> None:
        try:
            if self._context:
                self._context.close()
        finally:
            self._context = None
            if self._playwright:
                self._playwright.stop()
                self._playwright = None
