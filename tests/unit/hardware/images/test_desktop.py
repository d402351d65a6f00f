# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from sojourn.apps.options import DRIVERS, RECORDERS
from sojourn.hardware.images import desktop
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError
from tests.refusals import refusal


def test_a_gap_in_the_lock_says_how_to_close_it(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "requirements.txt").write_text("aiohttp==1 \\\n    --hash=sha256:aa\n")
    monkeypatch.setattr(desktop, "LOCK", checkout / "requirements.txt")
    with refusal(BuildError, "missing", "requirements.txt: cryptography", "make lock"):
        desktop.ensure_desktop()


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
