# SPDX-License-Identifier: Apache-2.0
"""A driver whose package is not installed: one line that names the extra, and no other error hidden behind it."""

from __future__ import annotations

import importlib

import pytest

from sojourn.apps.browsers import drivers
from sojourn.apps.browsers.browser import Browser, BrowserError
from sojourn.apps.browsers.drivers import DRIVERS


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    def missing(_name: str) -> None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(drivers, "import_module", missing)


@pytest.mark.parametrize("name", DRIVERS)
def test_a_driver_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    without(monkeypatch, f"{name}.sync_api")
    driver = DRIVERS[name]
    assert issubclass(driver, Browser), "options and tables can name it"
    for use in (driver, driver.check):
        with pytest.raises(BrowserError, match=rf"--driver={name} .*sojourn\[browsers\]") as raised:
            use()
        assert raised.value.code == "missing-program"


def test_another_missing_module_is_not_blamed_on_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "greenlet")
    with pytest.raises(ModuleNotFoundError, match="greenlet"):
        DRIVERS["playwright"]
    monkeypatch.setattr(drivers, "import_module", importlib.import_module)
    assert DRIVERS["playwright"].__name__ == "PlaywrightBrowser"
