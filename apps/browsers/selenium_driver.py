# SPDX-License-Identifier: Apache-2.0
"""Chromium driven by Selenium and ChromeDriver.

ChromeDriver runs alone (private_chromedriver.py) and talks to Chromium through a pipe, as Playwright does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver import ChromeOptions, Remote
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait
from urllib3.exceptions import HTTPError

from sojourn.apps.browsers.browser import Browser, BrowserError
from sojourn.apps.browsers.private_chromedriver import CHROMEDRIVER, PrivateChromeDriver
from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import ProcessError

#: Flags that Playwright passes to Chromium and ChromeDriver does not, as far as a page can notice.
_AS_PLAYWRIGHT = (
    "--disable-back-forward-cache",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-ipc-flooding-protection",
    "--disable-renderer-backgrounding",
    "--force-color-profile=srgb",
    "--no-default-browser-check",
    "--no-first-run",
    "--password-store=basic",
)
#: Chromium's policy that covers all of these.
_NO_DOWNLOADS = 3
_POLL_S, _START_S = 0.1, 20.0


class SeleniumBrowser(Browser):
    """See Browser."""

    errors = (WebDriverException, HTTPError)  # the latter if ChromeDriver itself has ended
    _chromedriver: PrivateChromeDriver | None = None
    _session: Remote | None = None

    @classmethod
    def check(cls, *, stranger: bool = False, program: Path | None = None, profile: Path | None = None) -> None:
        super().check(stranger=stranger, program=program, profile=profile)
        if not os.access(CHROMEDRIVER, os.X_OK):
            raise BrowserError(
                f"--driver=selenium: {CHROMEDRIVER} is missing (apt install chromium-driver)", code="missing-program"
            )

    def _launch(self, place: Place, arguments: list[str], scripts: Sequence[Path]) -> None:
        try:
            self._chromedriver = PrivateChromeDriver(place, self._program, self._home, self._log)
        except ProcessError as error:
            raise BrowserError(f"--driver=selenium: {error}", code="not-started") from error
        options = ChromeOptions()
        options.binary_location = str(self._chromedriver.stand_in)
        for argument in (*_AS_PLAYWRIGHT, *arguments, f"--user-data-dir={self._profile}", "--remote-debugging-pipe"):
            options.add_argument(argument)
        unwanted = ["disable-popup-blocking", "enable-automation", "enable-logging"]
        options.add_experimental_option("excludeSwitches", unwanted)
        options.add_experimental_option("prefs", {"download_restrictions": _NO_DOWNLOADS})
        options.page_load_strategy = "eager"  # a page counts as loaded once its document is there
        options.unhandled_prompt_behavior = "dismiss"
        # If Chromium ends at once, ChromeDriver would wait a minute for it.
        options.add_experimental_option("browserStartupTimeout", round(_START_S * 1000))
        self._session = Remote(self._chromedriver.connection(), options=options)
        for script in scripts:
            self._command("Page.addScriptToEvaluateOnNewDocument", {"source": script.read_text()})

    @property
    def _page(self) -> Remote:
        if self._session is None:
            raise BrowserError("the browser is closed", code="closed")
        return self._session

    def _goto(self, url: str, timeout: float) -> None:
        self._page.set_page_load_timeout(timeout)
        self._page.get(url)

    def _evaluate(self, script: str) -> Any:
        # The function gets lines of its own: it may begin or end with a comment.
        return self._page.execute_script(f"return (\n{script}\n)()")

    def _click(self, selector: str, timeout: float) -> None:
        self._with_first(selector, timeout, lambda element: element.click())

    def _fill(self, selector: str, text: str, timeout: float) -> None:
        def fill(element: WebElement) -> None:
            element.clear()
            element.send_keys(text)

        self._with_first(selector, timeout, fill)

    def _with_first(self, selector: str, timeout: float, act: Callable[[WebElement], None]) -> None:
        """Call `act` on the first visible match as soon as one accepts it."""

        def attempt(page: Remote) -> bool:
            first = next((e for e in page.find_elements(By.CSS_SELECTOR, selector) if e.is_displayed()), None)
            if first is not None:
                act(first)
            return first is not None

        passing = [
            ElementClickInterceptedException,  # something covers it
            ElementNotInteractableException,
            StaleElementReferenceException,
        ]
        WebDriverWait(self._page, timeout, _POLL_S, passing).until(attempt)

    def _command(self, method: str, parameters: dict[str, Any]) -> Mapping[str, Any]:
        sent = {"cmd": method, "params": parameters}
        answer: Mapping[str, Any] = self._page.execute("executeCdpCommand", sent)["value"]
        return answer

    def _version(self) -> str:
        return str(self._page.capabilities["browserVersion"])

    @property
    def driver(self) -> str:
        return f"Selenium {version('selenium')}"

    def _end(self) -> None:
        try:
            if self._session:
                self._session.quit()
        finally:
            self._session = None
            if self._chromedriver:
                self._chromedriver.stop()
