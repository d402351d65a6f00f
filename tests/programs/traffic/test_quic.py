# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from traffic import quic


def test_a_cargo_that_is_too_old_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cargo := tmp_path / "cargo").write_text("#!/bin/sh\necho cargo 1.63.0\n")
    cargo.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    quic.lacking.cache_clear()
    assert "1.63.0" in quic.lacking() and "1.88" in quic.lacking()
    quic.lacking.cache_clear()
