# SPDX-License-Identifier: Apache-2.0
"""A kernel from a tar file, a folder or a git tree: what names it, what is built from it, and what is refused."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sojourn.hardware.kernel_build import kbuild, kconfig, kernel_source
from sojourn.hardware.kernel_build.kbuild import Recipe
from sojourn.hardware.kernel_build.kernel_source import checked, files, identify, short_name
from sojourn.hardware.machine.cache import BuildError, unreported
from tests.refusals import refusal

MAKEFILE = """
all:
	cat net/sched/sch_mine.c >$(O)/linux
allnoconfig:
	cp $(KCONFIG_ALLCONFIG) $(O)/.config
	mkdir -p $(O)/include/config
	echo 7.2 >$(O)/include/config/kernel.release
mrproper:
	rm -f net/sched/generated.h
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tree that is built as Linux is, and makes one file."""
    tree = tmp_path / "mine"
    for name in (*kbuild.ADDED.values(), "arch/um", "arch/x86/um", "drivers/gpu/drm", "include/linux"):
        (tree / name).mkdir(parents=True, exist_ok=True)
        (tree / name / "Kconfig").touch()
    (tree / "Makefile").write_text(MAKEFILE)
    (tree / "Kconfig").touch()
    (tree / "net/sched/sch_mine.c").write_text("one\n")
    (tree / "drivers/gpu/drm/card.c").write_text("unused\n")
    (tree / ".gitignore").write_text("*.o\n.config\n")
    return tree


@pytest.fixture
def git_tree(folder: Path) -> Path:
    git(folder, "init", "-q")
    commit(folder)
    return folder


def git(tree: Path, *words: str) -> str:
    me = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", "-C", str(tree), *me, *words], check=True, capture_output=True, text=True).stdout


def commit(tree: Path) -> None:
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "x")


def built(source: Path, scratch: Path) -> tuple[str, str]:
    """What the kernel is made of, and its name for the evidence."""
    scratch.mkdir()
    recipe = Recipe("um", kconfig.VIRTUAL, files=1, patches=())
    tree = kbuild.compile_kernel(recipe, scratch, identify(source), scratch / "log", unreported)
    assert not (scratch / "source.tar").exists() and not (tree.source / "drivers/gpu/drm/card.c").exists()
    return (tree.objects / "linux").read_text(), tree.name


def state(tree: Path) -> dict[str, tuple[int, int]]:
    paths = [tree, *tree.rglob("*")]
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in paths}


def test_a_git_tree_is_named_by_its_commit_and_what_was_changed_since(git_tree: Path, tmp_path: Path) -> None:
    head = git(git_tree, "rev-parse", "HEAD").strip()
    clean = identify(git_tree)
    assert (clean.name, short_name(git_tree)) == (f"mine git:{head}", f"mine-{head[:12]}")
    mine = git_tree / "net/sched/sch_mine.c"
    mine.write_text("two\n")
    changed = identify(git_tree)
    assert re.fullmatch(f"mine git:{head} changes sha256:[0-9a-f]{{64}}", changed.name)
    assert re.fullmatch(f"mine-{head[:12]}-[0-9a-f]{{12}}", short_name(git_tree))
    (git_tree / "net/sched/sch_new.c").write_text("not added yet\n")
    added = identify(git_tree)
    mine.unlink()
    gone = identify(git_tree)
    mine.write_text("one\n")
    mine.chmod(0o755)
    program = identify(git_tree)
    mine.chmod(0o644)
    (git_tree / "net/sched/sch_new.c").unlink()
    (git_tree / "sch.o").write_text("ignored")
    os.utime(mine)
    assert identify(git_tree) == clean
    assert len({it.key for it in (clean, changed, added, gone, program)}) == 5
    other = shutil.copytree(git_tree, tmp_path / "elsewhere", symlinks=True)
    assert identify(other).key == clean.key


def test_what_is_built_is_what_is_in_the_tree_and_nothing_is_written_there(git_tree: Path, tmp_path: Path) -> None:
    (git_tree / "net/sched/sch_mine.c").write_text("two\n")
    (git_tree / "-x new.c").write_text("not added yet\n")
    (git_tree / "Kconfig").unlink()
    (git_tree / "Kconfig").symlink_to("Makefile")
    before = state(git_tree)
    assert built(git_tree, tmp_path / "scratch") == ("two\n", identify(git_tree).name)
    assert (tmp_path / "scratch/source/-x new.c").exists() and (tmp_path / "scratch/source/Kconfig").is_symlink()
    assert state(git_tree) == before


def test_a_folder_is_named_by_its_files(folder: Path, tmp_path: Path) -> None:
    first = identify(folder)
    assert re.fullmatch("mine files sha256:[0-9a-f]{64}", first.name)
    assert identify(shutil.copytree(folder, tmp_path / "elsewhere")).key == first.key
    (folder / "net/sched/sch_mine.c").write_text("two\n")
    assert identify(folder).key != first.key
    assert built(folder, tmp_path / "scratch") == ("two\n", identify(folder).name)


def test_what_a_build_left_in_a_folder_is_left_there(folder: Path, tmp_path: Path) -> None:
    before = identify(folder)
    for name in (".config", "include/generated/autoconf.h", "include/config/kernel.release", "net/sched/sch_mine.o"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("product")
    assert identify(folder).key == before.key
    (folder / "net/sched/generated.h").write_text("product that make alone knows")
    built(folder, tmp_path / "scratch")
    assert not (tmp_path / "scratch/source/include/generated").exists()
    assert not (tmp_path / "scratch/source/net/sched/generated.h").exists()
    assert (folder / "net/sched/generated.h").exists() and (folder / ".config").exists()


def test_a_tree_that_changes_while_it_is_copied_is_told(
    git_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = identify(git_tree)
    monkeypatch.setattr(kernel_source, "files", lambda tree: (tree / "Kconfig").write_text("edited") and files(tree))
    with refusal(BuildError, "altered", "--kernel-source ", "mine: "):
        kernel_source.pack(source, tmp_path / "source.tar")


def test_what_is_no_source_is_refused_with_what_would_be_one(folder: Path, tmp_path: Path) -> None:
    (old := folder / "arch/um").rename(folder / "arch/mu")
    with pytest.raises(ValueError, match=r"mine .* is not a Linux tree \(no arch/um\); give a linux-\*\.tar\.xz, the"):
        checked(folder)
    old.mkdir()
    with pytest.raises(ValueError, match=r"net has no sch_.* \(no Makefile\)"):
        checked(folder / "net")
    with refusal(BuildError, "invalid-value", "--kernel-source: ", "missing.tar.xz"):
        identify(tmp_path / "missing.tar.xz")
    git(folder, "init", "-q")
    with refusal(
        BuildError, "unreadable-file", "--kernel-source ", "mine: git rev-parse: fatal: Needed a single revision"
    ):
        identify(folder)
