# SPDX-License-Identifier: Apache-2.0
"""A page of the shared Chromium for each test, a screen, and the address of a service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from typing import Any

import pytest

from sojourn.apps.base import Stage
from sojourn.apps.page_service import PageService
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


@contextmanager
def served(service: PageService, run: Path) -> Iterator[str]:
    """Yield the address of a service's page, served on a free port of this machine."""
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    try:
        url, _ = service.serve(Stage(LOCAL, LOCAL, "127.0.0.1", run, "", port=port))
        yield url
    finally:
        service.stop()
