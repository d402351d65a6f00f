# SPDX-License-Identifier: Apache-2.0
"""What the adapters' tests drive in place of a browser of ours: a headless page of one that they share."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Page

from sojourn.apps.browsers import account, shown


class Tab:
    """A headless page as the adapter's driver."""

    version = "test"

    def __init__(self, page: Page) -> None:
        self.page, self._devtools = page, page.context.new_cdp_session(page)
        self.clicks: list[str] = []

    def open(self, url: str, timeout: float | None = None) -> None:
        self.page.goto(url)

    def evaluate(self, script: str) -> Any:
        return self.page.evaluate(script)

    def click(self, selector: str, timeout: float = 2) -> bool:
        try:
            self.page.locator(f"{selector} >> visible=true").first.click(timeout=timeout * 1000)
        except Error:
            return False
        self.clicks.append(selector)
        return True

    def fill(self, selector: str, text: str, timeout: float = 2) -> bool:
        try:
            self.page.locator(f"{selector} >> visible=true").first.fill(text, timeout=timeout * 1000)
        except Error:
            return False
        return True

    def fill_secret(self, selector: str, text: str, origins: Collection[str]) -> bool:
        return account.fill_secret(self._devtools.send, selector, text, origins)

    def set_cookies(self, url: str, cookie: str) -> None:
        account.set_cookies(self._devtools.send, url, cookie)

    def keep_state(self, state: account.StorageState, origins: Collection[str]) -> None:
        account.keep_state(self._devtools.send, state, origins)

    def allow(self, origin: str, what: Collection[str]) -> None:
        self._devtools.send("Browser.grantPermissions", {"origin": origin, "permissions": list(what)})

    def keep_shown(self, run: Path, of: str = "", secrets: Collection[str] = ()) -> str:
        return shown.keep_shown(self._devtools.send, run, of, secrets)

    def close(self) -> None:
        self.page.close()
