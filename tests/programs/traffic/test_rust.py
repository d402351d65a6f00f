# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
import subprocess
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


@pytest.mark.parametrize(
    "module", ["ack_frames", "ledbat_control", "prague_control", "scream2_control", "scream_control"]
)
def test_a_module_keeps_the_laws_of_its_standard(module: str, tmp_path: Path) -> None:
    if shutil.which("rustc") is None:
        pytest.skip(rust.missing_tools() or "rustc is not installed")
    source = Path(__file__).parent / "laws" / f"{module}.rs"
    compiled = ["rustc", "--edition", "2021", "-O", "--test", "-o", str(tmp_path / module), str(source)]
    subprocess.run(compiled, check=True)
    done = subprocess.run([tmp_path / module], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "test result: ok" in done.stdout, done.stdout
