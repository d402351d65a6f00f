# SPDX-License-Identifier: Apache-2.0
"""Where built things are kept, and how two builders of the same thing stay out of each other's way."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pwd
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hardware.machine.files import flush, lock, replace_file, sync_folder

Progress = Callable[[str, float], None]
"""Called with what is being done and the fraction done so far, 0 to 1."""


#: Modification time of files whose time is told to others, Unix s: its length is in the packets.
FIXED_TIME = 1_000_000_000


_LOG = logging.getLogger("sojourn.cache")


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
    """Return `entry`, calling `build(scratch)` first if it does not exist or is not as it was built.

    The scratch directory stands beside the entry and takes its name only when it is complete and on the disk, so
    neither two builders at once nor a killed one nor a power cut leave half of an entry behind. What it holds then is
    told by a seal beside it: sizes are compared at each use, contents at the first use after each boot. A cache on a
    file system that is read-only here has been looked at by who lends it.

    Raises BuildError where the cache is another user's.
    """
    if _is_lent(entry) and entry.is_dir():
        return entry
    check_owner()
    if _is_whole(entry, again=False):
        return entry
    with locked(entry.with_name(f".{entry.name}.lock")):
        if not _is_whole(entry, again=True):
            scratch, damaged = (entry.with_name(f".{entry.name}.{what}") for what in ("partial", "damaged"))
            if entry.exists():
                check_owner(entry)
                _LOG.warning("%s: has no seal or is not as it was built: it is built again", entry)
            _sweep(entry.parent)
            remove_tree(scratch)
            scratch.mkdir(parents=True)
            build(scratch)
            seal = json.dumps({"boot": _boot(), "files": _contents(scratch, _hashed)})
            flush(scratch)
            remove_tree(damaged)
            if entry.exists():
                entry.rename(damaged)
            replace_file(_seal(entry), seal.encode())
            scratch.rename(entry)
            sync_folder(entry.parent)
            remove_tree(damaged)
    return entry


def _sweep(folder: Path) -> None:
    """Remove the scratch directories of builders that were killed: nobody has their locks."""
    for scratch in folder.glob(".*.partial"):
        with scratch.with_suffix(".lock").open("w") as file:
            if lock(file.fileno()):
                remove_tree(scratch)


def check_owner(folder: Path | None = None) -> None:
    """Raise BuildError where the cache, or a `folder` of it, is another user's.

    What he may change must not run as us, nor ours as his.
    """
    folder = folder or root()
    if not folder.exists():
        return
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        raise BuildError(
            f"the cache {folder} belongs to {_named(owner)}, this runs as {_named(os.geteuid())}: "
            "run as its owner, or let SOJOURN_CACHE name a folder of your own"
        )


def _named(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _is_lent(entry: Path) -> bool:
    there = next(path for path in (entry, *entry.parents) if path.exists())
    return bool(os.statvfs(there).f_flag & os.ST_RDONLY)


def _is_whole(entry: Path, *, again: bool) -> bool:
    """Whether an entry is what its seal says.

    The first time after a boot its contents are compared too, and the seal is renewed, where that may be done `again`:
    by one at a time.
    """
    try:
        seal = json.loads(_seal(entry).read_text())
        boot, files = seal["boot"], seal["files"]
        if not entry.is_dir() or _contents(entry, _sized) != {name: what[0] for name, what in files.items()}:
            return False
        if boot != _boot():
            if not again or _contents(entry, _hashed) != files:
                return False
            replace_file(_seal(entry), json.dumps({"boot": _boot(), "files": files}).encode())
    except (OSError, ValueError, LookupError, TypeError):
        return False
    return True


def _seal(entry: Path) -> Path:
    return entry.with_name(f".{entry.name}.seal")


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _contents(tree: Path, tell: Callable[[str, dict[int, Any]], Any]) -> dict[str, Any]:
    """What `tell` says of each file and link below `tree`, by its path there; it remembers by the file's number."""
    known: dict[int, Any] = {}
    return {
        os.path.relpath(path, tree): tell(path, known)
        for folder, folders, names in os.walk(tree)
        for path in (f"{folder}/{name}" for name in (*names, *(f for f in folders if os.path.islink(f"{folder}/{f}"))))
    }


def _sized(path: str, _: dict[int, Any]) -> int:
    return os.lstat(path).st_size


def _hashed(path: str, known: dict[int, Any]) -> list[Any]:
    status = os.lstat(path)
    if status.st_ino not in known:  # films are many links to few files
        if os.path.islink(path):
            content = hashlib.sha256(os.readlink(path).encode()).hexdigest()
        elif os.path.isfile(path):
            with open(path, "rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        else:
            content = "device"
        known[status.st_ino] = [status.st_size, content]
    return known[status.st_ino]
