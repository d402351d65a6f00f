# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from hardware import build, kbuild, kconfig, patches
from hardware.kbuild import digest, newest_source
from hardware.machine.cache import BuildError


def test_newest_source_goes_by_number() -> None:
    assert newest_source(["linux-source-7.9", "linux-source-7.10", "linux-source-7.2"]) == "linux-source-7.10"
    with pytest.raises(BuildError, match="--kernel-source"):
        newest_source([])


def test_the_digest_changes_with_each_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = build.RECIPE
    tarball = tmp_path / "linux.tar.xz"
    tarball.write_bytes(b"one")
    seen = {digest(recipe, None), digest(recipe, tarball)}
    tarball.write_bytes(b"two")
    seen.add(digest(recipe, tarball))
    for name in kbuild.ADDED:
        with monkeypatch.context() as patch:
            patch.setattr(kbuild.kconfig, "FRAGMENTS", _edited_copy(kconfig.FRAGMENTS, name, tmp_path / f"with {name}"))
            seen.add(digest(recipe, None))
    for name in ("COMPILER", "COMMON_HEADERS"):
        with monkeypatch.context() as patch:
            edited = tmp_path / getattr(kbuild, name).name
            edited.write_text(getattr(kbuild, name).read_text() + "\n")
            patch.setattr(kbuild, name, edited)
            seen.add(digest(recipe, None))
    with monkeypatch.context() as patch:
        patch.setattr(kbuild, "_compiler", lambda: "another gcc")
        seen.add(digest(recipe, None))
    other = dataclasses.replace(patches.EDITS[0], replacement="")
    seen.add(digest(dataclasses.replace(recipe, edits=(other, *patches.EDITS[1:])), None))
    seen.add(digest(dataclasses.replace(recipe, fragments=kconfig.ROUTER), None))
    assert len(seen) == 8 + len(kbuild.ADDED)
    assert digest(recipe, None) == digest(recipe, None) in seen


def _edited_copy(fragments: Path, name: str, folder: Path) -> Path:
    shutil.copytree(fragments, folder)
    (folder / name).write_text((folder / name).read_text() + "\n")
    return folder


def test_a_source_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"--kernel-source .*missing.tar.xz: No such file"):
        digest(build.RECIPE, tmp_path / "missing.tar.xz")


def test_what_a_build_needs_and_lacks_is_named_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kbuild, "TOOLS", ("make", "no-such-tool"))
    recipe = dataclasses.replace(build.RECIPE, header=tmp_path / "libelf.h", apt_line="apt-get install libelf-dev")
    with pytest.raises(BuildError, match=r"not installed: no-such-tool, .*libelf.h; as root: apt-get .* libelf-dev"):
        kbuild.compile_kernel(recipe, tmp_path, None, tmp_path / "log", lambda _what, _share: None)
