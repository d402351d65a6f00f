# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.machine.cache import BuildError
from sojourn.traffic import rust
from tests.refusals import refusal


def test_a_cargo_that_is_too_old_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cargo := tmp_path / "cargo").write_text("#!/bin/sh\necho cargo 1.63.0\n")
    cargo.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with refusal(BuildError, "missing-program", "cargo 1.63.0 ", "Rust 1.88 "):
        rust.ensure("quic")
