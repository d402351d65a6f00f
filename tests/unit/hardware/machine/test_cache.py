# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hardware.machine import cache


def test_digest_depends_on_names_and_contents_but_not_on_order() -> None:
    parts = [("a", b"1"), ("b", b"2")]
    assert cache.digest(parts) == cache.digest(reversed(parts))
    others = [[("a", b"1")], [("a", b"2"), ("b", b"1")], [("a", b"1b"), ("b", b"2")], [("a", b""), ("1b", b"2")]]
    assert len({cache.digest(parts), *(cache.digest(other) for other in others)}) == 5


def test_two_builders_at_once_build_once(tmp_path: Path) -> None:
    entry, builds, begun = tmp_path / "entry", [], threading.Barrier(2)

    def build(scratch: Path) -> None:
        builds.append(scratch)
        (scratch / "made").write_text("whole")

    def builder() -> None:
        begun.wait()
        cache.build_once(entry, build)

    threads = [threading.Thread(target=builder) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds) == 1 and (entry / "made").read_text() == "whole"


def test_a_failed_build_leaves_no_entry_and_the_next_starts_afresh(tmp_path: Path) -> None:
    entry = tmp_path / "entry"

    def fail(scratch: Path) -> None:
        (scratch / "half").touch()
        raise cache.BuildError("no")

    with pytest.raises(cache.BuildError):
        cache.build_once(entry, fail)
    assert not entry.exists()
    cache.build_once(entry, lambda scratch: (scratch / "made").touch())
    assert [path.name for path in entry.iterdir()] == ["made"]


def test_the_cache_moves_with_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    assert cache.root() == tmp_path
    monkeypatch.delenv("SOJOURN_CACHE")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache.root() == Path("/home/someone/.cache/sojourn")
