# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sojourn.hardware.machine.cache import BuildError
from sojourn.traffic import rust
from tests.refusals import refusal


def test_the_lock_file_has_the_machines_own_registry() -> None:
    lock = (rust.HERE / rust.LOCK).read_text()
    whole = rust.located(lock, 'version = 4\n\n[[package]]\nname = "a"\nsource = "registry+sparse://mine"\n')
    assert (
        whole.count('source = "registry+sparse://mine"') == lock.count('source = "registry"') == lock.count("checksum")
    )
    with refusal(BuildError, "missing", "registry"):
        rust.located(lock, "version = 4\n")
