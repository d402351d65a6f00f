# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from sojourn.apps.options import DRIVERS, RECORDERS
from sojourn.hardware.images import desktop
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError
from tests.refusals import refusal

LOCK = """\
six==1.16.0 \\
    --hash=sha256:aa
typing-extensions==4.16.0 \\
    --hash=sha256:bb
zstandard==0.25.0 ; sys_platform == 'linux' \\
    --hash=sha256:cc
"""


def test_all_that_runs_inside_is_locked_with_all_that_it_needs() -> None:
    text = desktop.locked_lines(desktop.DISTRIBUTIONS, (desktop.CHECKOUT / "requirements.txt").read_text())
    names = [line.split("==")[0] for line in text.splitlines() if "==" in line]
    assert {*desktop.DISTRIBUTIONS, "greenlet", "pydantic-core", "typing-extensions", "pysocks"} <= set(names)
    assert names == sorted(names) and "pytest" not in names and "--hash=sha256:" in text and "#" not in text


def test_the_lock_is_cut_to_a_distribution_and_its_needs_and_a_gap_is_an_error() -> None:
    assert desktop.locked_lines(["typing-extensions"], LOCK).splitlines()[0].startswith("typing-extensions==4.16.0")
    assert "six" not in desktop.locked_lines(["zstandard"], LOCK)
    with refusal(BuildError, "missing", "requirements.txt: greenlet", "make lock"):
        desktop.locked_lines(["six", "greenlet"], LOCK)


def test_needs_of_needs_come_by_every_requirer_that_the_lock_names() -> None:
    lock = (
        "a==1 \\\n    --hash=sha256:aa\n    # via sojourn (pyproject.toml)\n"
        "b-c==1 \\\n    --hash=sha256:bb\n    # via\n    #   a\n    #   e\n"
        "d==1 \\\n    --hash=sha256:cc\n    # via b-c\n"
        "e==1 \\\n    --hash=sha256:dd\n"
    )
    assert re.findall(r"^[a-z-]+", desktop.locked_lines(["a"], lock), re.M) == ["a", "b-c", "d"]
    assert re.findall(r"^[a-z-]+", desktop.locked_lines(["e"], lock), re.M) == ["b-c", "d", "e"]


def test_a_distribution_is_found_however_it_is_written_and_with_all_its_lines() -> None:
    lock = (
        "# made by uv\n"
        "Typing_Extensions==4.16.0 ; python_version < '3.13' \\\n    --hash=sha256:aa\n    # via aiohttp\n"
        "typing-extensions==4.17.0 ; python_version >= '3.13' \\\n    --hash=sha256:bb\n"
        "urllib3[socks]==2.5.0 \\\n    --hash=sha256:cc\n"
    )
    text = desktop.locked_lines(["typing-extensions"], lock)
    assert [word for word in text.split() if "sha256" in word] == ["--hash=sha256:aa", "--hash=sha256:bb"]
    assert desktop.locked_lines(["urllib3"], lock).splitlines() == lock.splitlines()[-2:]


def test_what_only_some_runs_need_is_named_as_the_option_names_it() -> None:
    assert set(desktop.EXTRAS) <= {*RECORDERS, *DRIVERS}
    assert not {name for names in desktop.EXTRAS.values() for name in names} & {*desktop.SHOWN, *desktop.PACKAGES}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one module, for a guest that compiles nothing."""
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(desktop, "CHECKOUT", tmp_path / "checkout")
    monkeypatch.setattr(desktop, "_compile", lambda *_: None)
    (module := tmp_path / "checkout" / "harness" / "inside.py").parent.mkdir(parents=True)
    module.write_text("print()\n")
    (tmp_path / "checkout" / "credentials.toml").write_text("secret")
    return tmp_path / "checkout"


def test_sources_are_named_by_what_they_say(checkout: Path) -> None:
    first, digest = desktop._ensure_sources(Path("a" * 24))
    inside = first / "sojourn" / "harness" / "inside.py"
    assert [path for path in first.rglob("*") if path.is_file()] == [inside]
    (cached := checkout / "harness" / "__pycache__").mkdir()
    (cached / "inside.pyc").touch()
    os.utime(checkout / "harness" / "inside.py", (1, 1))
    assert desktop._ensure_sources(Path("a" * 24)) == (first, digest)
    assert inside.stat().st_mtime == cache.FIXED_TIME
    other, same = desktop._ensure_sources(Path("b" * 24))
    assert same == digest and other != first  # compiled by another guest's Python
    (checkout / "harness" / "inside.py").write_text("pass\n")
    changed, another = desktop._ensure_sources(Path("a" * 24))
    assert another != digest and (changed / inside.relative_to(first)).read_text() == "pass\n"
    assert inside.read_text() == "print()\n"  # a run that goes on keeps its own


def test_what_is_edited_meanwhile_does_not_come_under_the_digest_of_what_was_read(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edited_first(entry: Path, build: Callable[[Path], None]) -> Path:
        (checkout / "harness" / "inside.py").write_text("new\n")
        return cache.build_once(entry, build)

    monkeypatch.setattr(desktop, "cache", SimpleNamespace(**{**vars(cache), "build_once": edited_first}))
    folder, _ = desktop._ensure_sources(Path("a" * 24))
    assert (folder / "sojourn" / "harness" / "inside.py").read_text() == "print()\n"


def test_trees_of_one_content_have_one_digest(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "sh").write_text("echo")
        (tmp_path / name / "lib").symlink_to("bin")
    one = desktop.tree_digest(tmp_path / "a")
    os.utime(tmp_path / "b" / "bin" / "sh", (1, 1))
    assert one == desktop.tree_digest(tmp_path / "b")
    (tmp_path / "b" / "lib").unlink()
    (tmp_path / "b" / "lib").symlink_to("sbin")
    assert one != desktop.tree_digest(tmp_path / "b")


def test_settled_files_have_one_time(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "gone").symlink_to("nowhere")
    cache.normalise_mtimes(tmp_path)
    assert {path.lstat().st_mtime for path in (tmp_path, *tmp_path.iterdir())} == {cache.FIXED_TIME}
