# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from hardware import build, kconfig, patches
from hardware.build import BuildError, ensure_kernel, newest_source, recipe


def test_newest_source_goes_by_number() -> None:
    assert newest_source(["linux-source-7.9", "linux-source-7.10", "linux-source-7.2"]) == "linux-source-7.10"
    with pytest.raises(BuildError, match="--kernel-source"):
        newest_source([])


def test_recipe_changes_with_each_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tarball = tmp_path / "linux.tar.xz"
    tarball.write_bytes(b"one")
    seen = {recipe(None), recipe(tarball)}
    tarball.write_bytes(b"two")
    seen.add(recipe(tarball))
    with monkeypatch.context() as patch:
        prague = tmp_path / "tcp_prague.c"
        prague.write_text(build.PRAGUE.read_text() + "\n")
        patch.setattr(build, "PRAGUE", prague)
        seen.add(recipe(None))
    with monkeypatch.context() as patch:
        other = dataclasses.replace(patches.EDITS[0], replacement="")
        patch.setattr(patches, "EDITS", (other, *patches.EDITS[1:]))
        seen.add(recipe(None))
    with monkeypatch.context() as patch:
        patch.setattr(kconfig, "VIRTUAL", kconfig.ROUTER)
        seen.add(recipe(None))
    with monkeypatch.context() as patch:
        patch.setattr(build, "_compiler", lambda: "another gcc")
        seen.add(recipe(None))
    assert len(seen) == 7
    assert recipe(None) == recipe(None) in seen


def test_a_source_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"--kernel-source .*missing.tar.xz: No such file"):
        recipe(tmp_path / "missing.tar.xz")


def test_a_cached_kernel_needs_neither_network_nor_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    entry = tmp_path / "kernel" / recipe(None)
    entry.mkdir(parents=True)
    (entry / "kernel.json").write_text(json.dumps({"version": "7.2.13-sojourn", "source": "linux-source-7.2 7.2.13-1"}))
    monkeypatch.setattr(build, "TOOLS", ("no-such-tool",))
    kernel = ensure_kernel()
    assert (kernel.version, kernel.linux) == ("7.2.13-sojourn", entry / "linux")


def test_missing_tools_are_named_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "TOOLS", ("make", "no-such-tool"))
    with pytest.raises(BuildError, match=r"not installed: no-such-tool; as root: apt-get install .*flex"):
        ensure_kernel()
    assert not (tmp_path / "kernel" / recipe(None)).exists()
