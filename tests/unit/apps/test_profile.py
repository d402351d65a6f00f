# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sojourn.apps.browsers.profile import ProfileError, check_profile, copy_profile
from tests.refusals import refusal


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """As a browser leaves one that was ended, with what it can fetch again."""
    folder = tmp_path / "mine"
    hint = '{"Path":"%s/WidevineCdm/4.10.2891.0"}' % folder  # noqa: UP031
    for name, text in {
        "Local State": "{}",
        "Default/Cookies": "c",
        "Default/Local Storage/leveldb/LOCK": "",
        "Default/Sessions/Session_1": "s",
        "Default/Cache/Cache_Data/f_1": "x",
        "Default/Code Cache/js/1": "x",
        "Default/GPUCache/index": "x",
        "Default/Service Worker/CacheStorage/1/index": "x",
        "Crash Reports/1.dmp": "x",
        "DevToolsActivePort": "9",
        "WidevineCdm/4.10.2891.0/manifest.json": "{}",
        "WidevineCdm/latest-component-updated-widevine-cdm": hint,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "SingletonLock").symlink_to(f"{socket.gethostname()}-{2**22 + 1}")  # no process has that number
    (folder / "SingletonSocket").symlink_to("/nowhere")
    (folder / "Default" / "away").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    return folder


def test_what_a_login_needs_is_copied_and_nothing_else(profile: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    copy_profile(profile, copy)
    assert {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()} == {
        "Local State", "Default/Cookies", "Default/Local Storage/leveldb/LOCK",
        "WidevineCdm/4.10.2891.0/manifest.json", "WidevineCdm/latest-component-updated-widevine-cdm",
    }  # fmt: skip
    hint = (copy / "WidevineCdm" / "latest-component-updated-widevine-cdm").read_text()
    assert f"{copy}/WidevineCdm/4.10" in hint and not any(path.is_symlink() for path in copy.rglob("*"))


def test_a_folder_that_is_no_profile_is_refused(profile: Path, tmp_path: Path) -> None:
    with refusal(ProfileError, "missing", "--profile: ", tmp_path / "none"):
        check_profile(tmp_path / "none")
    with refusal(ProfileError, "invalid-value", "--profile: ", profile / "Default"):
        check_profile(profile / "Default")


@pytest.mark.parametrize(
    ("holder", "said"),
    [
        pytest.param(
            f"{socket.gethostname()}-{os.getpid()}",
            f" process {os.getpid()}",
            id="here",  # pids would tell the workers' tests apart
        ),
        pytest.param("far-away-77", " far-away", id="far"),
    ],
)
def test_a_profile_in_use_is_refused(profile: Path, tmp_path: Path, holder: str, said: str) -> None:
    (profile / "SingletonLock").unlink()
    (profile / "SingletonLock").symlink_to(holder)
    with refusal(ProfileError, "in-use", "--profile: ", said):
        copy_profile(profile, tmp_path / "copy")


def test_a_profile_that_cannot_be_copied_is_told(profile: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").touch()
    with refusal(ProfileError, "unreadable-file", "--profile: ", "File exists"):
        copy_profile(profile, tmp_path / "copy")
