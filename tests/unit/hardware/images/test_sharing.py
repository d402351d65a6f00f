# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.images import sharing


def test_large_files_with_the_same_content_are_stored_once(tmp_path: Path) -> None:
    guest, other = tmp_path / "guest", tmp_path / "other"
    for folder in (guest, other):
        (folder / "in").mkdir(parents=True)
        (folder / "in/same.so").write_bytes(b"a" * sharing.LARGE)
        (folder / "in/small.so").write_bytes(b"a")
        (folder / "differs.so").write_bytes(folder.name[:1].encode() * sharing.LARGE)
    sharing.share(guest, other)
    linked = {it.name for it in guest.rglob("*.so") if it.stat().st_nlink > 1}
    assert linked == {"same.so"} and (guest / "in/same.so").samefile(other / "in/same.so")
    assert (guest / "differs.so").read_bytes() == b"g" * sharing.LARGE


def test_what_is_shared_already_leaves_no_second_name(tmp_path: Path) -> None:
    for name in ("guest", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_bytes(b"a" * sharing.LARGE)
    for _ in range(2):
        sharing.share(tmp_path / "guest", tmp_path / "other")
    sharing.share(tmp_path / "guest", tmp_path / "guest")
    assert [it.name for it in (tmp_path / "guest").iterdir()] == ["tool"]


def test_files_of_another_mode_stay_apart(tmp_path: Path) -> None:
    for name, mode in (("guest", 0o755), ("other", 0o644)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_bytes(b"a" * sharing.LARGE)
        (tmp_path / name / "tool").chmod(mode)
    sharing.share(tmp_path / "guest", tmp_path / "other")
    assert (tmp_path / "guest/tool").stat().st_mode & 0o777 == 0o755


def test_complete_userlands_are_shared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    roots = [tmp_path / name / "root" for name in ("guest/abc", "guest/.def.partial", "desktop/.new.partial")]
    for name, root in zip(("tool", "part", "part"), roots, strict=True):
        root.mkdir(parents=True)
        (root / name).write_bytes(b"a" * sharing.LARGE)
    (roots[2] / "tool").write_bytes(b"a" * sharing.LARGE)
    sharing.share_with_others(roots[2])
    assert (roots[2] / "tool").samefile(roots[0] / "tool")
    assert not (roots[2] / "part").samefile(roots[1] / "part")  # another builder's, which may remove it
