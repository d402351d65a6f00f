# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sojourn.hardware.images import guest
from sojourn.hardware.machine.cache import BuildError
from tests.refusals import refusal


@pytest.mark.parametrize(
    ("deb", "known"),
    [
        ("iproute2_7.2.0-1_amd64.deb", ("iproute2", "7.2.0-1")),
        ("busybox_1%3a1.38.0-3+b1_amd64.deb", ("busybox", "1:1.38.0-3+b1")),
    ],
)
def test_versions_come_from_the_names_of_package_files(deb: str, known: tuple[str, str]) -> None:
    assert guest._name_version(deb) == known


def test_init_is_a_shell_script_without_errors() -> None:
    assert subprocess.run(["sh", "-n", str(guest.INIT)], capture_output=True, text=True).stderr == ""
    assert guest.INIT.stat().st_mode & 0o111


def test_a_missing_tool_is_named_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    monkeypatch.setattr(guest, "TOOLS", ("no-such-tool",))
    with refusal(BuildError, "missing-program", " no-such-tool", "apt-get install ", "mmdebstrap"):
        guest.ensure_guest()
