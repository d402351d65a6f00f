# SPDX-License-Identifier: Apache-2.0
"""What can drive the browser, by the names of --driver."""

from __future__ import annotations

from collections.abc import Mapping

from apps.browser import Browser
from apps.playwright_driver import PlaywrightBrowser
from apps.selenium_driver import SeleniumBrowser

DRIVERS: Mapping[str, type[Browser]] = {"playwright": PlaywrightBrowser, "selenium": SeleniumBrowser}
