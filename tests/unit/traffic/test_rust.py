# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

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
