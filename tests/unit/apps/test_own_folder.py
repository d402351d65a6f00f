# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from sojourn.apps.standins import own_folder
from sojourn.apps.standins.own_folder import FolderError, ensure_own_folder
from tests.refusals import refusal


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "cache"))
    (folder := tmp_path / "site" / "media").mkdir(parents=True)
    (folder / "film.mp4").write_bytes(b"film")
    (page := folder.parent / "my page.html").write_text("<video>")
    return page


def test_its_copy_is_named_by_what_is_in_it(site: Path) -> None:
    own = ensure_own_folder(site)
    assert own.path == "my%20page.html"
    copied = {str(file.relative_to(own.folder)): file.read_bytes() for file in own.folder.rglob("*") if file.is_file()}
    assert copied == {"my page.html": b"<video>", "media/film.mp4": b"film"}
    assert ensure_own_folder(site) == own
    (site.parent / "media" / "film.mp4").write_bytes(b"another")
    assert ensure_own_folder(site).digest != own.digest


def test_what_is_linked_is_not_served(site: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (site.parent / "link").symlink_to(tmp_path / "secret")
    (site.parent / "folder").symlink_to(tmp_path)
    assert "secret" not in "".join(str(file) for file in ensure_own_folder(site).folder.rglob("*"))
    assert not (ensure_own_folder(site).folder / "link").exists()


def test_a_whole_disk_is_not_copied(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_folder, "MOST_FILES", 1)
    with refusal(FolderError, "too-large", f"{site.parent}: ", " 1 "):
        ensure_own_folder(site)


def test_what_a_dot_hides_is_not_served_and_modes_stay(site: Path) -> None:
    (site.parent / ".git").mkdir()
    for name in (".git/config", ".env"):
        (site.parent / name).write_text("secret")
    (site.parent / "media" / "film.mp4").chmod(0o600)
    folder = ensure_own_folder(site).folder
    assert not [file for file in folder.rglob("*") if file.name.startswith(".")]
    # Root's machines are another user; everybody else's are the user who starts them.
    wanted = 0o644 if os.geteuid() == 0 else 0o600
    assert (folder / "media" / "film.mp4").stat().st_mode & 0o777 == wanted


def test_what_changes_while_it_is_copied_is_not_served(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def altered(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes() + b"more")

    monkeypatch.setattr("sojourn.apps.standins.own_folder.shutil.copy", altered)
    with refusal(FolderError, "altered", site.parent):
        ensure_own_folder(site)
