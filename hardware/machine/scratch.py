# SPDX-License-Identifier: Apache-2.0
"""Short-lived files of this process: one folder, gone when it ends, swept by the next one after a SIGKILL."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path

from hardware.machine.files import lock

_PREFIX, _LOCK = "sojourn-", ".held"


def scratch_file(suffix: str) -> Path:
    """Return a new empty file."""
    descriptor, path = tempfile.mkstemp(suffix=suffix, dir=_folder())
    os.close(descriptor)
    return Path(path)


def scratch_folder(suffix: str) -> Path:
    """Return a new empty folder. Its path is short: a control socket of ssh may have 104 bytes."""
    return Path(tempfile.mkdtemp(suffix=suffix, dir=_folder()))


def sweep() -> None:
    """Remove the folders of this user's processes that are no more; whatever else stands there stays.

    A folder is known as one by the lock in it, which its process holds for as long as it lives: pids mean nothing to
    who cannot see all of them.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            held = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # no folder of this kind, or another user's
            continue
        try:
            status = os.fstat(held)
            ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not folder.is_symlink()
            if ours and lock(held):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # no locks there
            pass
        finally:
            os.close(held)


_making = threading.Lock()


def _folder() -> Path:
    with _making:  # else two threads make it
        return _made(os.getpid())


@functools.cache
def _made(process: int) -> Path:
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{process}-"))
    # Named only when it is held: else another's sweep could come between.
    held, fresh = tempfile.mkstemp(dir=folder)
    lock(held)
    os.rename(fresh, folder / _LOCK)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
