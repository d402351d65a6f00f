# SPDX-License-Identifier: Apache-2.0
"""A browser's profile of the user's: what it holds of logins and keys is copied for a run, and never written to."""

from __future__ import annotations

import os
import shutil
import socket
from fnmatch import fnmatch
from pathlib import Path

import psutil

from sojourn.hardware.machine.viewer import give

#: What shows a folder to be one.
_STATE = "Local State"
#: A link to "host-pid" while a browser has it open.
_LOCK = "SingletonLock"
#: What belongs to a browser that runs, opens the pages of its last time again, or can be fetched again.
_LEFT_OUT = ("Singleton*", "lockfile", "DevToolsActivePort", "Sessions", "*Cache", "CacheStorage", "Crash*")
#: Says where the module for protected films lies, by a path of its own.
_WIDEVINE = Path("WidevineCdm", "latest-component-updated-widevine-cdm")


class ProfileError(RuntimeError):
    """A folder is no profile that could be used; the text names the option and says what would be right."""


def check_profile(folder: Path) -> None:
    """Raises ProfileError for a folder that is no browser's profile, or one that a browser has open."""
    if not folder.is_dir():
        raise ProfileError(f"--profile: no such folder: {folder}; give the one that --user-data-dir names")
    if not (folder / _STATE).is_file():
        raise ProfileError(
            f"--profile: {folder} is no profile, it has no {_STATE!r}; give the folder that --user-data-dir names, "
            "which holds Default"
        )
    try:
        host, _, pid = os.readlink(folder / _LOCK).rpartition("-")
    except OSError:
        return
    if host != socket.gethostname():
        raise ProfileError(f"--profile: {folder} is in use at {host}; close the browser there, or remove {_LOCK}")
    if pid.isdecimal() and psutil.pid_exists(int(pid)):
        raise ProfileError(f"--profile: {folder} is in use by process {pid}; close that browser")


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
    except (OSError, ValueError) as error:  # that of several files is an OSError too
        raise ProfileError(f"--profile: {folder} cannot be copied: {str(error)[:300]}") from error
    give(into)
