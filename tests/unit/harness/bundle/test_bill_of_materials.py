# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from sojourn.hardware.images.desktop import Desktop
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.machine.files import CHECKOUT, LOCK
from sojourn.harness.bundle import bill_of_materials


def made() -> str:
    versions = {"archive of forky": "2026-10-30", "chromium": "1:156.0-1", "python numpy": "2.4.6"}
    desktop = Desktop(Path("root"), Path("sources"), versions, "d" * 24, "s" * 24)
    kernel = Kernel(Path("linux"), Path("config"), "7.2.1", "linux-source-7.2 7.2.1-1 sha256:aa", "k" * 24)
    project, when = (CHECKOUT / "pyproject.toml").read_text(), datetime(2026, 11, 27, tzinfo=UTC)
    players = {"hls.js": "1.7.4"}
    return bill_of_materials.document(project, LOCK.read_text(), kernel, desktop, players, when, "0.1.0")


def test_it_is_valid_cyclonedx_and_the_same_parts_give_the_same_bytes() -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator  # seconds, which the tests' collection need not take

    text = made()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert made() == text


def test_it_lists_distributions_kernel_guest_and_players() -> None:
    parts = {part["bom-ref"]: part for part in json.loads(made())["components"]}
    assert parts["pypi/polars"]["scope"] == "required" and parts["pypi/playwright"]["scope"] == "optional"
    assert not {"pypi/mypy", "pypi/hatchling", "pypi/colorama"} & parts.keys()
    assert parts["kernel"]["version"] == "7.2.1" and parts["npm/hls.js"]["purl"] == "pkg:npm/hls.js@1.7.4"
    inside = {part["name"]: part["purl"] for part in parts["guest"]["components"]}
    assert inside["numpy"] == "pkg:pypi/numpy@2.4.6" and set(inside) == {"chromium", "numpy"}
    assert inside["chromium"].startswith("pkg:deb/debian/chromium@1:156.0-1?arch=amd64")


def test_a_pin_for_another_system_is_not_listed() -> None:
    lock = (
        "a==1 \\\n    --hash=x\n"
        "b==2 ; sys_platform == 'win32' \\\n    --hash=x\n"
        "c==3 ; os_name == 'nt' or platform_python_implementation != 'PyPy' \\\n    --hash=x\n"
    )
    assert bill_of_materials.pins(lock) == {"a": "1", "c": "3"}
