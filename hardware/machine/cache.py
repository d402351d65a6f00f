# SPDX-License-Identifier: Apache-2.0
"""Where built things are kept, and how two builders of the same thing stay out of each other's way."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hardware.machine.files import lock

Progress = Callable[[str, float], None]
"""Called with what is being done and the fraction done so far, 0 to 1."""


#: Modification time of files whose time is told to others, Unix s: its length is in the packets.
FIXED_TIME = 1_000_000_000


class BuildError(RuntimeError):
    """A kernel or guest cannot be built; the message is one line that says why and what to do."""


def root() -> Path:
    """The cache directory: $SOJOURN_CACHE, else ~/.cache/sojourn."""
    return Path(os.environ.get("SOJOURN_CACHE") or Path.home() / ".cache" / "sojourn").absolute()


def digest(parts: Iterable[tuple[str, bytes]]) -> str:
    """24 hex digits that name a build by its inputs, given as (name, content); the order does not matter."""
    total = hashlib.sha256()
    for name, content in sorted(parts):
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()[:24]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock for the block; the kernel lets go of it even after SIGKILL."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        lock(file.fileno(), wait=True)
        yield


def remove_tree(path: Path) -> None:
    """Remove a directory that may hold files and directories without write permission."""
    if path.exists():
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        shutil.rmtree(path)


def settle(tree: Path) -> None:
    """Give all files and folders below `tree` one time of modification: web servers tell it."""
    for folder, _, names in os.walk(tree):
        for path in (folder, *(f"{folder}/{name}" for name in names)):
            os.utime(path, (FIXED_TIME, FIXED_TIME), follow_symlinks=False)


def build_once(entry: Path, build: Callable[[Path], None]) -> Path:
    """Return `entry`, calling `build(scratch)` first if it does not exist.

    The scratch directory stands beside the entry and takes its name only when it is complete, so neither two
    builders at once nor a killed one leave half of an entry behind.
    """
    if entry.is_dir():
        return entry
    scratch = entry.with_name(f".{entry.name}.partial")
    with locked(entry.with_name(f".{entry.name}.lock")):
        if not entry.is_dir():
            remove_tree(scratch)
            scratch.mkdir(parents=True)
            build(scratch)
            scratch.rename(entry)
    return entry
