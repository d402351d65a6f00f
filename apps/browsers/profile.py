# SPDX-License-Identifier: Apache-2.0
"""The user's browser profile: its logins and keys are copied for a run; the profile is never written to."""

from __future__ import annotations

import os
import shutil
import socket
from fnmatch import fnmatch
from pathlib import Path

import psutil

from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.viewer import give

#: A folder with this file is a profile.
_STATE = "Local State"
#: A symbolic link to "host-pid" while a browser has it open.
_LOCK = "SingletonLock"
#: Files of a running browser, files that reopen its last pages, and caches.
_LEFT_OUT = ("Singleton*", "lockfile", "DevToolsActivePort", "Sessions", "*Cache", "CacheStorage", "Crash*")
#: Holds the absolute path of the module for protected video.
_WIDEVINE = Path("WidevineCdm", "latest-component-updated-widevine-cdm")


class ProfileError(CodedError):
    """A folder is not a usable profile; the message names the option and says what would be right."""


def check_profile(folder: Path) -> None:
    """Raise ProfileError for a folder that is not a browser profile, or that a browser has open."""
    if not folder.is_dir():
        raise ProfileError(
            f"--profile: no such folder: {folder}; give the one that --user-data-dir names", code="missing"
        )
    if not (folder / _STATE).is_file():
        raise ProfileError(
            f"--profile: {folder} is not a profile: it has no {_STATE!r}; give the folder that --user-data-dir names, "
            "which holds Default",
            code="invalid-value",
        )
    try:
        host, _, pid = os.readlink(folder / _LOCK).rpartition("-")
    except OSError:
        return
    if host != socket.gethostname():
        raise ProfileError(
            f"--profile: {folder} is in use at {host}; close the browser there, or remove {_LOCK}", code="in-use"
        )
    if pid.isdecimal() and psutil.pid_exists(int(pid)):
        raise ProfileError(f"--profile: {folder} is in use by process {pid}; close that browser", code="in-use")


def copy_profile(folder: Path, into: Path) -> None:
    """Copy a profile into the viewer's empty folder `into`. Raises ProfileError."""
    check_profile(folder)

    def left_out(inside: str, names: list[str]) -> list[str]:
        paths = {name: Path(inside, name) for name in names}
        return [
            name
            for name, path in paths.items()
            if any(fnmatch(name, pattern) for pattern in _LEFT_OUT)
            or path.is_symlink()
            or not (path.is_dir() or path.is_file())
        ]

    try:
        shutil.copytree(folder, into, ignore=left_out, dirs_exist_ok=True)
        if (hint := into / _WIDEVINE).is_file():
            hint.write_text(hint.read_text().replace(str(folder), str(into)))
    except (OSError, ValueError) as error:  # shutil.Error is an OSError too
        raise ProfileError(
            f"--profile: {folder} cannot be copied: {str(error)[:300]}", code="unreadable-file"
        ) from error
    give(into)
