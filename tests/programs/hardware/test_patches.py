# SPDX-License-Identifier: Apache-2.0
"""The changes to the kernel source: how a series is applied, and that Sojourn's fits a kernel that it is given."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from sojourn.hardware.kernel_build.kbuild import ADDED
from sojourn.hardware.patches import PATCHES, PatchError, apply_all, series
from tests.refusals import refusal

SOURCE = "".join(f"line {number}\n" for number in range(20))
PATCH = """From: somebody
Subject: [PATCH] test: change two files

Why.
---
--- a/first.c
+++ b/first.c
@@ -8,7 +8,7 @@
 line 7
 line 8
 line 9
-line 10
+another line 10
 line 11
 line 12
 line 13
--- a/second.c
+++ b/second.c
@@ -1,3 +1,4 @@
+a new line 0
 line 0
 line 1
 line 2
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("first.c", "second.c"):
        (tmp_path / "linux" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "linux" / name).write_text(SOURCE)
    return tmp_path / "linux"


@pytest.fixture
def patches(tmp_path: Path) -> tuple[Path, ...]:
    folder = tmp_path / "patches"
    folder.mkdir()
    (folder / "series").write_text("# in this order\n0001-change.patch\n")
    (folder / "0001-change.patch").write_text(PATCH)
    return series(folder)


def contents(tree: Path) -> list[str]:
    return [(tree / name).read_text() for name in ("first.c", "second.c")]


CHANGED = [SOURCE.replace("line 10\n", "another line 10\n"), f"a new line 0\n{SOURCE}"]


def test_a_patch_applies_where_its_lines_have_moved_to(tree: Path, patches: tuple[Path, ...]) -> None:
    (tree / "first.c").write_text("moved\n" * 40 + SOURCE)
    apply_all(tree, patches)
    assert contents(tree) == ["moved\n" * 40 + CHANGED[0], CHANGED[1]]


def test_what_upstream_took_is_left_alone(tree: Path, patches: tuple[Path, ...]) -> None:
    apply_all(tree, patches)
    apply_all(tree, patches)
    assert contents(tree) == CHANGED


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("first.c", SOURCE.replace("line 9\n", "another line 9\n")),  # GNU patch would take it with fuzz
        ("first.c", CHANGED[0]),  # upstream took half of the patch
        ("second.c", None),
    ],
    ids=["other context", "half", "no such file"],
)
def test_a_patch_that_does_not_fit_is_named_and_changes_nothing(
    tree: Path, patches: tuple[Path, ...], name: str, text: str | None
) -> None:
    if text is None:
        (tree / name).unlink()
    else:
        (tree / name).write_text(text)
    before = {path: path.read_text() for path in tree.iterdir()}
    with refusal(PatchError, "unsupported", "0001-change.patch", name) as raised:
        apply_all(tree, patches)
    assert "\n" not in str(raised.value)
    assert {path: path.read_text() for path in tree.iterdir()} == before


def test_a_repository_around_the_source_is_not_looked_at(tree: Path, patches: tuple[Path, ...]) -> None:
    subprocess.run(["git", "init", "-q", tree.parent], check=True)
    apply_all(tree, patches)
    assert contents(tree) == CHANGED


def test_the_series_names_every_patch_and_every_patch_says_why() -> None:
    assert sorted(series()) == sorted(PATCHES.glob("*.patch")) == list(series())
    for patch in series():
        header = re.match(r"From: \S.*\nSubject: \[PATCH\] \S.*\n\n\S[^\0]*?\n---\n", patch.read_text())
        assert header, f"{patch.name} has no header"


def test_every_added_source_file_is_compiled() -> None:
    whole = "".join(patch.read_text() for patch in series())
    for name in (name for name in ADDED if name.endswith(".c")):
        assert f" {Path(name).stem}.o" in whole, name


def test_writer_and_reader_of_the_clock_mean_the_same_page() -> None:
    (patch,) = (patch for patch in series() if "clock-page" in patch.name)
    writer, reader = re.findall(r"(?ms)^\+struct um_clock \{.*?^\+\};", patch.read_text())
    assert writer == reader


def test_the_series_applies_to_a_kernel_source_and_comes_off_again(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    given = request.config.getoption("--kernel-source")
    tarballs = [Path(given)] if given else sorted(Path("/usr/src").glob("linux-source-7.*.tar.*"))
    if not tarballs:
        pytest.skip("no kernel source: give a tarball with --kernel-source, or install linux-source-7.2")
    changed = set(re.findall(r"(?m)^--- a/(.*)", "".join(patch.read_text() for patch in series())))
    for tarball in tarballs:
        (tree := tmp_path / tarball.name.partition(".tar")[0]).mkdir()
        unpack = ["tar", "-C", tree, "--strip-components=1", "--wildcards", "-xf", tarball]
        subprocess.run([*unpack, *(f"linux-*/{name}" for name in changed)], check=True)
        before = {name: (tree / name).read_bytes() for name in changed}
        apply_all(tree, series())
        assert all((tree / name).read_bytes() != before[name] for name in changed)
        for patch in reversed(series()):
            subprocess.run(["git", "apply", "--reverse", "--whitespace=nowarn", patch], cwd=tree, check=True)
        assert {name: (tree / name).read_bytes() for name in changed} == before
