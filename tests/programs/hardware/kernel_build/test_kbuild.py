# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.hardware import build_tool
from sojourn.hardware.kernel_build import build, kbuild, kconfig
from sojourn.hardware.kernel_build.kbuild import Recipe, digest, newest_source
from sojourn.hardware.kernel_build.kernel_source import identify
from sojourn.hardware.machine.cache import BuildError, unreported
from tests.refusals import refusal


def test_newest_source_goes_by_number() -> None:
    assert newest_source(["linux-source-7.9", "linux-source-7.10", "linux-source-7.2"]) == "linux-source-7.10"
    with pytest.raises(BuildError, match="--kernel-source"):
        newest_source([])


def test_the_digest_changes_with_each_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = build.RECIPE
    tarball = tmp_path / "linux.tar.xz"
    tarball.write_bytes(b"one")
    seen = {digest(recipe, None), digest(recipe, identify(tarball))}
    tarball.write_bytes(b"two")
    seen.add(digest(recipe, identify(tarball)))
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
        patch.setattr(build_tool, "compiler", lambda: "another gcc")
        seen.add(digest(recipe, None))
    first, second, *others = recipe.patches
    (edited := tmp_path / first.name).write_text(first.read_text().replace("+", "+ ", 1))
    for patches in ((edited, second, *others), (second, first, *others), (second, *others)):
        seen.add(digest(dataclasses.replace(recipe, patches=patches), None))
    seen.add(digest(dataclasses.replace(recipe, fragments=kconfig.ROUTER), None))
    seen.add(digest(dataclasses.replace(recipe, hot=recipe.hot[1:]), None))
    seen.add(digest(dataclasses.replace(recipe, trained_by="nothing"), None))
    assert len(seen) == 12 + len(kbuild.ADDED)
    assert digest(recipe, None) == digest(recipe, None) in seen


def _edited_copy(fragments: Path, name: str, folder: Path) -> Path:
    shutil.copytree(fragments, folder)
    (folder / name).write_text((folder / name).read_text() + "\n")
    return folder


def test_what_a_build_needs_and_lacks_is_named_with_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kbuild, "TOOLS", ("make", "no-such-tool"))
    recipe = dataclasses.replace(build.RECIPE, header=tmp_path / "libelf.h", apt_line="apt-get install libelf-dev")
    with refusal(BuildError, "missing-program", " no-such-tool, ", "libelf.h; ", "apt-get ", " libelf-dev"):
        kbuild.compile_kernel(recipe, tmp_path, None, tmp_path / "log", unreported)


MAKEFILE = """
linux: $(O)/linux
$(O)/linux: $(O)/hot.o
	cd $(O) && $(CC) -o vmlinux hot.o && cp vmlinux linux
$(O)/hot.o:
	@echo "  CC      hot.o"
	cd $(O) && $(CC) -O2 -DVERSION=$(KBUILD_BUILD_VERSION) -c -o hot.o $(CURDIR)/hot.c
allnoconfig:
	cp $(KCONFIG_ALLCONFIG) $(O)/.config
prepare:
	mkdir -p $(O)/include/config
	echo 7.2 >$(O)/include/config/kernel.release
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A tarball that is compiled as a kernel is, and is one file."""
    tree = tmp_path / "linux"
    for folder in kbuild.ADDED.values():
        (tree / folder).mkdir(parents=True, exist_ok=True)
    (tree / "Makefile").write_text(MAKEFILE)
    (tree / "hot.c").write_text("int main(int argc, char **argv) { return argc > 1 ? argc * 3 : VERSION - 1; }\n")
    with tarfile.open(tmp_path / "linux.tar.xz", "w:xz") as tarball:
        tarball.add(tree, "linux")
    return tmp_path / "linux.tar.xz"


def compiled(
    source: Path, scratch: Path, train: Callable[[Path, Path], None] | None, steps: list[str] | None = None
) -> bytes:
    scratch.mkdir()
    tell = (lambda _share, what: steps.append(what)) if steps is not None else unreported
    recipe = Recipe("um", kconfig.VIRTUAL, files=1, patches=(), hot=("hot",), headers_once=True)
    tree = kbuild.compile_kernel(recipe, scratch, identify(source), scratch / "log", tell, train)
    return (tree.objects / "linux").read_bytes()


def test_the_hot_files_are_compiled_by_what_the_training_counted(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(linux: Path, profile: Path) -> None:
        assert not profile.exists()
        subprocess.run([linux], check=True)
        assert [file.suffix for file in profile.iterdir()] == [".gcda"]

    steps: list[str] = []
    plain, trained = compiled(source, tmp_path / "plain", None), compiled(source, tmp_path / "trained", train, steps)
    assert steps[-1] == "compiling the packet path with its profile"
    assert b"__gcov" not in trained
    assert trained != plain
    assert capsys.readouterr().err == ""


def test_without_a_profile_a_line_says_so_and_the_kernel_is_the_plain_one(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(linux: Path, profile: Path) -> None:
        assert b"__gcov_dump" in linux.read_bytes()
        raise BuildError("the training failed: no memory")

    steps: list[str] = []
    assert compiled(source, tmp_path / "failed", train, steps) == compiled(source, tmp_path / "plain", None)
    assert steps[-1] == "compiling the packet path without a profile"
    said = "the kernel will be slower, compiled without a profile: the training failed: no memory\n"
    assert capsys.readouterr().err == said
