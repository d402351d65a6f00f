# SPDX-License-Identifier: Apache-2.0
"""What any test of a lab may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where what a test starts has its scratch folders, and nobody else; the path is short, as sockets in it need."""
    with TemporaryDirectory(prefix="s") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)
