# SPDX-License-Identifier: Apache-2.0
"""A page of the shared Chromium for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.programs.apps.tab import Tab


@pytest.fixture
def tab(chromium: Any) -> Iterator[Tab]:
    """A page of its own."""
    page = chromium.new_page()
    yield Tab(page)
    page.close()
