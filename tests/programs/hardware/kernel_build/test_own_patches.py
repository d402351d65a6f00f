# SPDX-License-Identifier: Apache-2.0
"""A user's own *.patch files: how they change a kernel tree, what comes back without them, and what is refused."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

from sojourn.hardware.kernel_build import kbuild, kept_tree, own_files
from sojourn.hardware.kernel_build.build import RECIPE
from sojourn.hardware.kernel_build.kconfig import FRAGMENTS
from sojourn.hardware.kernel_build.own_files import Placement
from sojourn.hardware.machine.cache import BuildError
from tests.refusals import refusal

INPUT, HEADER = "net/ipv4/tcp_input.c", "include/net/tcp.h"
LINES = [f"line {number}\n" for number in range(20)]
CONTROL = 'static struct tcp_congestion_ops mine __read_mostly = {\n\t.name = "mine",\n};\n'


def patch(*changes: tuple[str, str, str], lines: list[str] = LINES) -> str:
    """Return a patch of files of LINES: their path, a line, and what takes its place."""
    text = "From: somebody\nSubject: [PATCH] change\n\nWhy.\n---\n"
    for file, old, new in changes:
        after = [new if line == old else line for line in lines]
        text += "".join(difflib.unified_diff(lines, after, f"a/{file}", f"b/{file}"))
    return text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "tcp_mine.c").write_text(CONTROL)
    (folder / "0001-first.patch").write_text(patch((INPUT, "line 3\n", "three\n"), (HEADER, "line 5\n", "five\n")))
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "linux"
    for name in (INPUT, HEADER, "net/ipv4/Kconfig", "net/sched/sch_pie.c"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("".join(LINES))
    (tree / "net/Makefile").write_text("obj-y += sched/\n")
    (tree / own_files.PLACE).mkdir()
    return tree


def changed(tree: Path, file: str) -> list[str]:
    """Return the lines of a file that are not LINES."""
    return [line for line in (tree / file).read_text().splitlines(keepends=True) if line not in LINES]


def place(folder: Path, tree: Path) -> Placement:
    return own_files.place(own_files.read(folder), tree)


def test_patches_are_applied_in_the_order_of_their_names(folder: Path, tree: Path) -> None:
    after = ["three\n" if line == "line 3\n" else line for line in LINES]
    (folder / "0002-second.patch").write_text(patch((INPUT, "three\n", "3\n"), lines=after))
    assert place(folder, tree).patched == {INPUT: "0002-second.patch", HEADER: "0001-first.patch"}
    assert (changed(tree, INPUT), changed(tree, HEADER)) == (["3\n"], ["five\n"])
    assert not list((tree / own_files.PLACE).glob("*.patch"))


def test_only_what_differs_is_written_and_everything_comes_back(folder: Path, tree: Path) -> None:
    place(folder, tree)
    files = (INPUT, HEADER, "net/sched/sch_pie.c")
    for file in files:
        os.utime(tree / file, (1, 1))
    (folder / "0001-first.patch").write_text(patch((INPUT, "line 3\n", "3\n"), (HEADER, "line 5\n", "five\n")))
    place(folder, tree)
    assert [file for file in files if (tree / file).stat().st_mtime != 1] == [INPUT]
    assert (changed(tree, INPUT), changed(tree, HEADER)) == (["3\n"], ["five\n"])
    (folder / "0001-first.patch").write_text(patch((INPUT, "line 3\n", "3\n")))
    assert place(folder, tree).patched == {INPUT: "0001-first.patch"}
    assert (changed(tree, INPUT), changed(tree, HEADER)) == (["3\n"], [])
    assert own_files.place(None, tree) == Placement()
    assert not changed(tree, INPUT) and not any(path.is_file() for path in (tree / "sojourn").rglob("*"))


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        (patch((INPUT, "line 3\n", "x\n"), lines=["other\n", *LINES[3:]]), "unsupported", f"patch failed: {INPUT}:1"),
        ("not a patch\n", "invalid-value", "No valid patches"),
        (patch(("net/ipv4/gone.c", "line 3\n", "x\n")), "invalid-value", "changes net/ipv4/gone.c; a patch can"),
        (patch(("net/ipv4/Kconfig", "line 3\n", "x\n")), "invalid-value", "changes net/ipv4/Kconfig; a patch can"),
        ("--- /dev/null\n+++ b/net/new.c\n@@ -0,0 +1 @@\n+int new;\n", "invalid-value", "create net/new.c"),
        (patch(("../../outside.c", "line 3\n", "x\n")), "invalid-value", "outside.c"),
    ],
)  # fmt: skip
def test_what_cannot_be_applied_is_refused_with_its_name(
    text: str, code: str, named: str, folder: Path, tree: Path
) -> None:
    (folder / "0002-wrong.patch").write_text(text)
    with refusal(BuildError, code, f"--kernel-source: {folder / '0002-wrong.patch'}: ", named):
        place(folder, tree)
    assert not changed(tree, INPUT) and not list((tree / own_files.PLACE).iterdir()), "before anything is written"


def test_a_file_is_replaced_or_changed(folder: Path, tree: Path) -> None:
    (folder / "sch_pie.c").write_text('static struct Qdisc_ops pie __read_mostly = {\n\t.id = "pie",\n};\n')
    (folder / "0002-pie.patch").write_text(patch(("net/sched/sch_pie.c", "line 3\n", "x\n")))
    with refusal(BuildError, "conflict", folder / "0002-pie.patch", "which", folder / "sch_pie.c", "replaces"):
        place(folder, tree)


def test_files_that_a_patch_changes_lose_their_profile(folder: Path, tree: Path, tmp_path: Path) -> None:
    """Also those that include a changed header: their counts are of other lines."""
    prepared = kbuild.Prepared(tree, tmp_path / "objects", "", ())
    for file, header in (("net/ipv4/tcp", HEADER), ("net/core/dev", "include/net/sock.h")):
        command = prepared.objects / f"{Path(file).parent}/.{Path(file).name}.o.cmd"
        command.parent.mkdir(parents=True)
        command.write_text(f"deps_{file}.o := \\\n  /cache/source/{header} \\\n")
    placed = place(folder, tree)
    kept_tree._be_hot(RECIPE, prepared, placed)
    hot = (prepared.tools / "hot").read_text().split()
    assert "net/core/dev.o" in hot and not {"net/ipv4/tcp_input.o", "net/ipv4/tcp.o"} & set(hot)
    kept_tree._be_hot(RECIPE, prepared, own_files.place(None, tree))
    assert (prepared.tools / "hot").read_text().split() == [f"{file}.o" for file in RECIPE.hot]


def test_a_header_that_is_compiled_once_for_all_files_is_not_changed(folder: Path, tree: Path, tmp_path: Path) -> None:
    prepared = kbuild.Prepared(tree, tmp_path / "objects", "", ())
    placed = place(folder, tree)
    common = prepared.tools / "common.h.gch"
    common.write_bytes(b"\0/cache/source/include/net/sock.h\0")
    kept_tree._refuse_common_headers(prepared, own_files.read(folder), placed.patched)
    common.write_bytes(f"\0/cache/source/{HEADER}\0".encode())
    with refusal(BuildError, "unsupported", folder / "0001-first.patch", HEADER, "whole Linux tree"):
        kept_tree._refuse_common_headers(prepared, own_files.read(folder), placed.patched)
    assert not common.exists() and not changed(tree, HEADER)


def test_sojourns_patches_for_bbr3_change_no_configuration() -> None:
    """So that a kernel with them differs from the default one in TCP alone."""
    own = own_files.read(FRAGMENTS / "bbr3")
    files = {line[6:] for text in own.patches.values() for line in text.decode().splitlines() if line[:6] == "+++ b/"}
    assert files == {"include/net/inet_connection_sock.h", HEADER, INPUT, "net/ipv4/tcp_output.c"}


def test_objects_of_an_interrupted_compilation_are_made_again(tmp_path: Path) -> None:
    """Half of one is newer than its source: make would link it."""
    mark, objects = tmp_path / "compiling", tmp_path / "objects"
    objects.mkdir()
    whole, half, source, finished = (objects / name for name in ("whole.o", "half.o", "half.c", "finished.o"))
    whole.touch()
    kept_tree._remove_unfinished(mark, objects)
    assert whole.exists() and mark.exists()
    for path in (half, source, finished, finished.with_name(".finished.o.cmd")):
        path.write_text("h")
    half.with_name(".half.o.cmd").write_text("of an earlier one")
    for path in (whole, half.with_name(".half.o.cmd")):
        os.utime(path, ns=(0, 0))
    kept_tree._remove_unfinished(mark, objects)
    assert whole.exists() and source.exists() and finished.exists() and not half.exists()
