# SPDX-License-Identifier: Apache-2.0
"""Short-lived files of this process: one folder, removed at exit, or after a SIGKILL by the next process."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from sojourn.hardware.machine.files import lock, remove_tree

SHM = Path("/dev/shm")
"""A folder whose files are in memory."""
_PREFIX = "sojourn-"
#: The names that `_created` gives, which nobody else uses.
_NAME = re.compile(r"sojourn-\d+_[a-z0-9_]{8}", re.ASCII)


def scratch_file(suffix: str) -> Path:
    """Return a new empty file."""
    descriptor, path = tempfile.mkstemp(suffix=suffix, dir=_folder())
    os.close(descriptor)
    return Path(path)


def scratch_folder(suffix: str, *, within: Path | None = None) -> Path:
    """Return a new empty folder, `within` SHM or among temporary files."""
    return Path(tempfile.mkdtemp(suffix=suffix, dir=_folder(within)))


def socket_folder() -> Path:
    """Return a new empty folder for control sockets of ssh whose name is a hash (`%C`), in SHM if TMPDIR is long."""
    folder = scratch_folder("-ssh")
    # The kernel's limit is 107 bytes; ssh appends 17 characters while it creates a socket.
    fits = len(os.fsencode(folder / ("C" * 40))) + 17 <= 107
    return folder if fits else scratch_folder("-ssh", within=SHM)


def sweep() -> None:
    """Remove the folders of this user's ended processes, and nothing else.

    A process locks its folder while it lives: pids are meaningless to those who cannot see all of them.
    """
    for folder in (path for place in (Path(tempfile.gettempdir()), SHM) for path in place.glob(f"{_PREFIX}*")):
        if not _NAME.fullmatch(folder.name):
            continue
        try:
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # not a folder, or another user's
            continue
        try:
            if os.fstat(held).st_uid == os.geteuid() and lock(held):
                remove_tree(folder)
        except OSError:  # no locks, or another user's file
            pass
        finally:
            os.close(held)


_creation = threading.Lock()


def _folder(within: Path | None = None) -> Path:
    with _creation:  # otherwise two threads would create it
        return _created(os.getpid(), within)


@functools.cache
def _created(process: int, within: Path | None) -> Path:
    sweep()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{process}_", dir=within))
        # Another process's sweep may remove it before it is opened or locked.
        with suppress(FileNotFoundError):
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(FileNotFoundError):
                if lock(held) and os.path.samestat(os.fstat(held), folder.stat()):
                    break
            os.close(held)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
