# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from hardware import desktop
from harness import cache
from harness.cache import BuildError

LOCK = """\
six==1.16.0 \\
    --hash=sha256:aa
typing-extensions==4.16.0 \\
    --hash=sha256:bb
zstandard==0.25.0 ; sys_platform == 'linux' \\
    --hash=sha256:cc
"""


def test_what_is_needed_by_what_is_needed_is_in_the_closure() -> None:
    names = desktop.closure(["playwright", "pydantic"])
    assert {"playwright", "greenlet", "pydantic", "pydantic-core", "typing-extensions"} <= set(names)
    assert names == sorted(set(names)) and "pytest" not in names


def test_all_that_runs_inside_is_locked() -> None:
    lock = (desktop.CHECKOUT / "requirements.txt").read_text()
    text = desktop.locked_lines(desktop.closure(desktop.DISTRIBUTIONS), lock)
    assert text.count("==") >= len(desktop.DISTRIBUTIONS) and "--hash=sha256:" in text


def test_the_lock_is_cut_to_what_is_asked_and_a_gap_is_named() -> None:
    assert desktop.locked_lines(["typing-extensions"], LOCK).splitlines()[0].startswith("typing-extensions==4.16.0")
    assert "six" not in desktop.locked_lines(["zstandard"], LOCK)
    with pytest.raises(BuildError, match=r"requirements\.txt lacks greenlet: make lock"):
        desktop.locked_lines(["six", "greenlet"], LOCK)


def test_trees_of_one_content_have_one_digest(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "sh").write_text("echo")
        (tmp_path / name / "lib").symlink_to("bin")
    one = desktop.tree_digest(tmp_path / "a")
    assert one == desktop.tree_digest(tmp_path / "b")
    (tmp_path / "b" / "lib").unlink()
    (tmp_path / "b" / "lib").symlink_to("sbin")
    assert one != desktop.tree_digest(tmp_path / "b")


def test_settled_files_have_one_time(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "gone").symlink_to("nowhere")
    cache.settle(tmp_path)
    assert {path.lstat().st_mtime for path in (tmp_path, *tmp_path.iterdir())} == {cache.FIXED_TIME}
