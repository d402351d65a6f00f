# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.machine.cache import BuildError
from sojourn.traffic import rust
from tests.refusals import refusal


@pytest.mark.parametrize("package", rust.PACKAGES)
def test_the_lock_file_has_the_machines_own_registry(package: str) -> None:
    lock = (rust.HERE / package / rust.LOCK).read_text()
    whole = rust.located(lock, 'version = 4\n\n[[package]]\nname = "a"\nsource = "registry+sparse://mine"\n')
    assert (
        whole.count('source = "registry+sparse://mine"') == lock.count('source = "registry"') == lock.count("checksum")
    )
    with refusal(BuildError, "missing", "registry"):
        rust.located(lock, "version = 4\n")


def test_a_package_names_the_tools_that_only_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rust.missing_tools("quic").startswith("cargo ")
    for tool in ("cargo", "clang"):
        (tmp_path / tool).touch(mode=0o755)
    assert rust.missing_tools("quic") == ""
    assert rust.missing_tools("quic-quiche") == "cmake (apt-get install cmake)"


@pytest.mark.parametrize("package", rust.PACKAGES)
def test_a_package_has_the_modules_of_its_programs_only(package: str) -> None:
    files = {str(path.relative_to(rust.HERE)) for path in rust.sources(package)}
    assert all((rust.HERE / file).is_file() for file in files)
    assert ("certificate.rs" in files) == (package != "origin")
    assert ("prague_control.rs" in files) == (package in ("", "noq", "origin"))
    assert ("scream_control.rs" in files) == (package == "")


def test_every_source_belongs_to_a_package() -> None:
    used = {path for package in rust.PACKAGES for path in rust.sources(package)}
    assert {*rust.HERE.rglob("*.rs")} <= used
