# SPDX-License-Identifier: Apache-2.0
"""Short-lived files of this process: one folder, gone when it ends, swept by the next one after a SIGKILL."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import threading
from pathlib import Path

import psutil

_PREFIX = "sojourn-"


def scratch_file(suffix: str) -> Path:
    """Return a new empty file."""
    descriptor, path = tempfile.mkstemp(suffix=suffix, dir=_folder())
    os.close(descriptor)
    return Path(path)


def scratch_folder(suffix: str) -> Path:
    """Return a new empty folder. Its path is short: a control socket of ssh may have 104 bytes."""
    return Path(tempfile.mkdtemp(suffix=suffix, dir=_folder()))


def sweep() -> None:
    """Remove the folders of processes that are no more."""
    root = Path(tempfile.gettempdir())
    for stale in (path for path in root.glob(f"{_PREFIX}*") if path.name.removeprefix(_PREFIX).isdigit()):
        if not psutil.pid_exists(int(stale.name.removeprefix(_PREFIX))):
            shutil.rmtree(stale, ignore_errors=True)  # another user's stays


_making = threading.Lock()


def _folder() -> Path:
    with _making:  # else two threads make it, and the second removes what the first has in it
        return _made()


@functools.cache
def _made() -> Path:
    sweep()
    folder = Path(tempfile.gettempdir()) / f"{_PREFIX}{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
