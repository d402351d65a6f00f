# SPDX-License-Identifier: Apache-2.0
"""Short-lived files of this process: one folder, gone when it ends, swept by the next one after a SIGKILL."""

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
"""Where files are in memory."""
_PREFIX = "sojourn-"
#: What `_made` calls them, and nobody else what is his own.
_NAME = re.compile(r"sojourn-\d+_[a-z0-9_]{8}", re.ASCII)


def scratch_file(suffix: str) -> Path:
    """Return a new empty file."""
    descriptor, path = tempfile.mkstemp(suffix=suffix, dir=_folder())
    os.close(descriptor)
    return Path(path)


def scratch_folder(suffix: str, *, within: Path | None = None) -> Path:
    """Return a new empty folder, `within` SHM or among temporary files.

    Its path is short: a control socket of ssh may have 104 bytes.
    """
    return Path(tempfile.mkdtemp(suffix=suffix, dir=_folder(within)))


def sweep() -> None:
    """Remove the folders of this user's processes that are no more; whatever else stands there stays.

    Its process holds a lock on its folder for as long as it lives: pids mean nothing to who cannot see all of them.
    """
    for folder in (path for place in (Path(tempfile.gettempdir()), SHM) for path in place.glob(f"{_PREFIX}*")):
        if not _NAME.fullmatch(folder.name):
            continue
        try:
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # no folder, or another user's
            continue
        try:
            if os.fstat(held).st_uid == os.geteuid() and lock(held):
                remove_tree(folder)
        except OSError:  # no locks there, or something of another user's
            pass
        finally:
            os.close(held)


_making = threading.Lock()


def _folder(within: Path | None = None) -> Path:
    with _making:  # else two threads make it
        return _made(os.getpid(), within)


@functools.cache
def _made(process: int, within: Path | None) -> Path:
    sweep()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{process}_", dir=within))
        # Before it is opened, or locked, another's sweep may have removed it.
        with suppress(FileNotFoundError):
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(FileNotFoundError):
                if lock(held) and os.path.samestat(os.fstat(held), folder.stat()):
                    break
            os.close(held)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
