# SPDX-License-Identifier: Apache-2.0
"""The browser drivers, by their --driver names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from sojourn.apps.browsers.browser import Browser


class _Drivers(Mapping[str, type[Browser]]):
    """Imports a driver on first use: an import takes 0.25 s, and a run needs only one."""

    _classes: Mapping[str, tuple[str, str]] = {
        "playwright": ("sojourn.apps.browsers.playwright_driver", "PlaywrightBrowser"),
        "selenium": ("sojourn.apps.browsers.selenium_driver", "SeleniumBrowser"),
    }

    def __getitem__(self, name: str) -> type[Browser]:
        module, driver = self._classes[name]
        chosen: type[Browser] = getattr(import_module(module), driver)
        return chosen

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


DRIVERS = _Drivers()
