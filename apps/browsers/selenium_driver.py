# SPDX-License-Identifier: Apache-2.0
"""Chromium driven by Selenium and ChromeDriver.

ChromeDriver runs beside us, as our loopback is not the browser's, and talks to Chromium by the same pipe as Playwright.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver import ChromeOptions, Proxy, Remote
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chromium.remote_connection import ChromiumRemoteConnection
from selenium.webdriver.common.by import By
from selenium.webdriver.common.proxy import ProxyType
from selenium.webdriver.remote.client_config import ClientConfig
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait
from urllib3.exceptions import HTTPError

from apps.browsers.browser import Browser, BrowserError
from hardware.machine.place import LOCAL

CHROMEDRIVER = Path("/usr/bin/chromedriver")
#: What Playwright gives Chromium and ChromeDriver does not, as far as a page could tell.
_AS_PLAYWRIGHT = (
    "--disable-back-forward-cache",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-ipc-flooding-protection",
    "--disable-renderer-backgrounding",
    "--force-color-profile=srgb",
)
_POLL_S, _START_S = 0.1, 20.0


class SeleniumBrowser(Browser):
    """See Browser."""

    errors = (WebDriverException, HTTPError)  # the latter when ChromeDriver itself is gone
    _service: Service | None = None
    _session: Remote | None = None

    @classmethod
    def check(cls) -> None:
        super().check()
        if not os.access(CHROMEDRIVER, os.X_OK):
            raise BrowserError(f"--driver=selenium: {CHROMEDRIVER} is missing (apt install chromium-driver)")

    def _launch(
        self,
        chromium: Path,
        arguments: list[str],
        environment: dict[str, str],
        scripts: Sequence[Path],
        *,
        sandbox: bool,
    ) -> None:
        options = ChromeOptions()
        options.binary_location = str(chromium)
        profile = [f"--user-data-dir={self._home / 'profile'}", "--remote-debugging-pipe"]
        for argument in (*_AS_PLAYWRIGHT, *arguments, *profile, *([] if sandbox else ["--no-sandbox"])):
            options.add_argument(argument)
        options.add_experimental_option("excludeSwitches", ["enable-automation", "enable-logging"])
        options.page_load_strategy = "eager"  # a page counts as loaded once its document is there
        options.unhandled_prompt_behavior = "dismiss"
        # Of a Chromium that ends at once ChromeDriver would wait a minute for an answer.
        options.add_experimental_option("browserStartupTimeout", round(_START_S * 1000))
        driver = self._home / "chromedriver"
        driver.write_text(f'#!/bin/sh\nexec {shlex.join(LOCAL.argv([str(CHROMEDRIVER)]))} "$@"\n')
        driver.chmod(0o700)
        # A session of its own: Ctrl-C is the harness's to handle, which ends things in order.
        self._service = Service(str(driver), env=environment, popen_kw={"start_new_session": True})
        self._service.start()
        # A proxy of the environment is not for our own loopback.
        config = ClientConfig(self._service.service_url, proxy=Proxy({"proxyType": ProxyType.DIRECT}))
        connection = ChromiumRemoteConnection(config.remote_server_addr, "goog", "chrome", client_config=config)
        self._session = Remote(connection, options=options)
        for script in scripts:
            source = {"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": {"source": script.read_text()}}
            self._session.execute("executeCdpCommand", source)

    @property
    def _page(self) -> Remote:
        if self._session is None:
            raise BrowserError("the browser is closed")
        return self._session

    def _goto(self, url: str, timeout: float) -> None:
        self._page.set_page_load_timeout(timeout)
        self._page.get(url)

    def _evaluate(self, script: str) -> Any:
        # The function stands on lines of its own: it may begin or end with a comment.
        return self._page.execute_script(f"return (\n{script}\n)()")

    def _click(self, selector: str, timeout: float) -> None:
        self._with_first(selector, timeout, lambda element: element.click())

    def _fill(self, selector: str, text: str, timeout: float) -> None:
        def fill(element: WebElement) -> None:
            element.clear()
            element.send_keys(text)

        self._with_first(selector, timeout, fill)

    def _with_first(self, selector: str, timeout: float, act: Callable[[WebElement], None]) -> None:
        """Do it to the first visible match as soon as there is one that takes it."""

        def attempt(page: Remote) -> bool:
            first = next((e for e in page.find_elements(By.CSS_SELECTOR, selector) if e.is_displayed()), None)
            if first is not None:
                act(first)
            return first is not None

        passing = [
            ElementClickInterceptedException,  # covered by something
            ElementNotInteractableException,
            StaleElementReferenceException,
        ]
        WebDriverWait(self._page, timeout, _POLL_S, passing).until(attempt)

    def _screenshot(self, path: Path) -> None:
        self._page.get_screenshot_as_file(str(path))

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
            if self._service:
                self._service.stop()
