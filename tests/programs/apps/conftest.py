# SPDX-License-Identifier: Apache-2.0
"""A page of the shared Chromium for each test, and a screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sojourn.hardware.machine.display import Display
from sojourn.hardware.machine.place import LOCAL
from tests.programs.apps.tab import Tab


@pytest.fixture
def tab(chromium: Any) -> Iterator[Tab]:
    """A page of its own."""
    page = chromium.new_page()
    yield Tab(page)
    page.close()


@pytest.fixture(scope="module")
def display(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A small screen of its own for each file."""
    screen = Display.start(LOCAL, tmp_path_factory.mktemp("screen") / "xvfb.log", (640, 360))
    yield screen.name
    screen.stop()
