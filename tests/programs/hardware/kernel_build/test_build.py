# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sojourn.hardware import build_tool
from sojourn.hardware.kernel_build import build, kbuild
from sojourn.hardware.kernel_build.build import RECIPE, ensure_kernel
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError
from tests.refusals import refusal


def test_a_cached_kernel_needs_neither_network_nor_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    entry = tmp_path / "kernel" / kbuild.digest(RECIPE, None)
    told = json.dumps({"version": "7.2.13-sojourn", "source": "linux-source-7.2 7.2.13-1"})
    entry.parent.mkdir()
    cache.build_once(entry, lambda work: (work / "kernel.json").write_text(told))
    monkeypatch.setattr(kbuild, "TOOLS", ("no-such-tool",))
    kernel = ensure_kernel()
    assert (kernel.version, kernel.linux) == ("7.2.13-sojourn", entry / "linux")


def test_missing_tools_are_named_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "ensure_guest", lambda: None)  # which would be built into the empty cache
    monkeypatch.setattr(kbuild, "TOOLS", ("make", "no-such-tool"))
    with refusal(BuildError, "missing-program", " no-such-tool", "apt-get install ", "flex"):
        ensure_kernel()
    assert not (tmp_path / "kernel" / kbuild.digest(RECIPE, None)).exists()


def test_a_guest_that_cannot_be_built_ends_the_build_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise BuildError("not installed: mmdebstrap", code="missing-program")

    steps = list[str]()
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "ensure_guest", fail)
    monkeypatch.setattr(kbuild, "prepare", lambda *_: steps.append("prepared"))
    monkeypatch.setattr(kbuild, "compile_prepared", lambda *_: steps.append("compiled"))
    with refusal(BuildError, "missing-program", "mmdebstrap"):
        ensure_kernel()
    assert steps == ["prepared"]


def test_a_kernel_that_fails_ends_what_builds_the_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "ensure_guest", lambda: build_tool.call(["sleep", "600"]))
    monkeypatch.setattr(kbuild, "TOOLS", ("no-such-tool",))
    begun = time.monotonic()
    with refusal(BuildError, "missing-program", "no-such-tool"):
        ensure_kernel()
    assert time.monotonic() - begun < 300
