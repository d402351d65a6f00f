# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.hardware.machine import cache
from tests.refusals import refusal


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


def test_a_build_removes_what_killed_builders_left_and_nothing_of_one_at_work(tmp_path: Path) -> None:
    killed, at_work = (tmp_path / f".{name}.partial" for name in ("killed", "at-work"))
    for scratch in (killed, at_work):
        (scratch / "deep").mkdir(parents=True)
    (killed / "deep").chmod(0o500)
    with cache.locked(tmp_path / ".at-work.lock"):
        cache.build_once(tmp_path / "entry", lambda scratch: None)
    assert at_work.exists() and not killed.exists()


def test_the_cache_moves_with_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    assert cache.root() == tmp_path
    monkeypatch.delenv("SOJOURN_CACHE")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache.root() == Path("/home/someone/.cache/sojourn")


def built(entry: Path, builds: list[int]) -> Path:
    """Build an entry with a file, a link, and two names of one file; return it."""

    def build(scratch: Path) -> None:
        builds.append(1)
        (scratch / "deep").mkdir()
        (scratch / "deep" / "made").write_text("whole")
        (scratch / "again").hardlink_to(scratch / "deep" / "made")
        (scratch / "link").symlink_to("deep")

    return cache.build_once(entry, build)


def test_a_whole_entry_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds: list[int] = []
    for boot in ("a", "a", "b", "b"):
        monkeypatch.setattr(cache, "_boot", lambda boot=boot: boot)
        built(tmp_path / "entry", builds)
    assert builds == [1]


def emptied(entry: Path) -> None:
    (entry / "deep" / "made").write_text("")


def gone(entry: Path) -> None:
    (entry / "again").unlink()


def more(entry: Path) -> None:
    (entry / "more").touch()


def hollow(entry: Path) -> None:
    """As ext4 may leave a file that was written before a power cut: its size is there, its blocks are not."""
    (entry / "deep" / "made").write_bytes(b"\0" * 5)


def unsealed(entry: Path) -> None:
    (entry.parent / ".entry.seal").unlink()


def half_sealed(entry: Path) -> None:
    (entry.parent / ".entry.seal").write_text('{"boot": ')


@pytest.mark.parametrize(
    ("damage", "boot"),
    [(emptied, "same"), (gone, "same"), (more, "same"), (unsealed, "same"), (half_sealed, "same"), (hollow, "next")],
)
def test_a_damaged_entry_is_named_and_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None],
    boot: str,
) -> None:  # fmt: skip
    builds: list[int] = []
    monkeypatch.setattr(cache, "_boot", lambda: "same")
    entry = built(tmp_path / "entry", builds)
    damage(entry)
    monkeypatch.setattr(cache, "_boot", lambda: boot)
    assert (built(entry, builds) / "deep" / "made").read_text() == "whole"
    assert builds == [1, 1] and str(entry) in caplog.text and "rebuilding it" in caplog.text
    assert sorted(p.name for p in tmp_path.iterdir()) == [".entry.lock", ".entry.seal", "entry"]


def flipped(entry: Path) -> None:
    """Same size, same time of modification."""
    file = entry / "deep" / "made"
    before = file.stat()
    file.write_text("whale")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(entry: Path) -> None:
    (entry / "fresh").write_text("whale")
    (entry / "fresh").rename(entry / "deep" / "made")


@pytest.mark.parametrize("damage", [flipped, replaced])
def test_what_a_program_wrote_is_found_at_the_next_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]
) -> None:
    builds: list[int] = []
    damage(built(tmp_path / "entry", builds))
    assert (built(tmp_path / "entry", builds) / "deep" / "made").read_text() == "whole" and builds == [1, 1]
    assert re.search(
        rf"{tmp_path / 'entry'}: (again and 1 more are|deep/made is) different from the build: rebuilding it",
        caplog.text,
    )


def test_what_was_only_touched_is_compared_once_and_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds: list[int] = []
    (built(tmp_path / "entry", builds) / "deep" / "made").touch()
    built(tmp_path / "entry", builds)
    monkeypatch.setattr(cache, "contents", lambda _: pytest.fail("compared twice"))
    assert built(tmp_path / "entry", builds) and builds == [1]


@pytest.mark.parametrize("when", ["the same day", "the next day", "a clock set back", "doubted", "doubted to come"])
def test_what_a_disk_changed_is_found_once_a_day_and_when_it_is_doubted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_stamps", lambda _: "as ever")  # it says nothing of it
    builds: list[int] = []
    hollow(built(tmp_path / "entry", builds))
    now = time.time()
    later = {"the next day": 86_401, "a clock set back": -3600}.get(when, 60)
    if when.startswith("doubted"):
        cache.doubt()
        stamp = now + (3600 if when == "doubted to come" else 30)
        os.utime(tmp_path / ".doubt", (stamp, stamp))
    monkeypatch.setattr(time, "time", lambda: now + later)
    built(tmp_path / "entry", builds)
    built(tmp_path / "entry", builds)
    assert builds == ([1] if when in ("the same day", "doubted to come") else [1, 1])


def test_a_cache_of_another_user_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 4711)
    with refusal(cache.BuildError, "not-writable", tmp_path, "SOJOURN_CACHE"):
        built(tmp_path / "entry", [])
    assert list(tmp_path.iterdir()) == []
