# SPDX-License-Identifier: Apache-2.0
"""The browser drivers, by their --driver names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from sojourn.apps.browsers.browser import Browser, BrowserError


class _Drivers(Mapping[str, type[Browser]]):
    """Imports a driver on first use: an import takes 0.25 s, and a run needs only one.

    Without the extra `browsers`, a driver is a class that cannot start: a simulated machine has its own.
    """

    _classes: Mapping[str, tuple[str, str]] = {
        "playwright": ("sojourn.apps.browsers.playwright_driver", "PlaywrightBrowser"),
        "selenium": ("sojourn.apps.browsers.selenium_driver", "SeleniumBrowser"),
    }

    def __getitem__(self, name: str) -> type[Browser]:
        module, driver = self._classes[name]
        try:
            chosen: type[Browser] = getattr(import_module(module), driver)
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] != name:
                raise
            return _absent(name)
        return chosen

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


def _absent(name: str) -> type[Browser]:
    def refuse(*_: Any, **__: Any) -> None:
        raise BrowserError(
            f"--driver={name} needs an extra: pip install 'sojourn[browsers]', in a checkout: make setup",
            code="missing-program",
        )

    return type("AbsentBrowser", (Browser,), {"__new__": refuse, "check": refuse})


DRIVERS = _Drivers()
