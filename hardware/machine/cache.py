# SPDX-License-Identifier: Apache-2.0
"""The cache of built things, safe for concurrent builders of the same entry."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import pwd
import stat
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from sojourn.hardware.machine import files
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.files import flush, lock, replace_file, sync_folder, unlock


class ProgressCallback(Protocol):
    """Receives the share done of a step, 0 to 1, and the current activity."""

    def __call__(self, share: float, what: str = "") -> None: ...


def unreported(share: float, what: str = "") -> None:
    """Receive the progress of a step that nobody watches."""


#: Modification time of files that servers report, Unix s: its length affects packets.
FIXED_TIME = 1_000_000_000
DEVICE = "device"
"""In place of the hash of a device node."""


_LOG = logging.getLogger("sojourn.cache")
#: Interval of content checks, s: a disk may return other bytes without an error from the file system.
_DAY_S = 86_400
#: A file in the cache: entries checked before its time are checked again.
_DOUBT = ".doubt"


held = set[int]()
"""Descriptors of the locks that `locked` currently holds."""
held_unchanged = threading.Lock()
"""Held while `held` changes, and by who passes them on: a closed descriptor's number may be another file's."""


class BuildError(CodedError):
    """A kernel, guest or program cannot be built; the message is one line with the reason and the remedy."""


def root() -> Path:
    """The cache directory: $SOJOURN_CACHE, else ~/.cache/sojourn."""
    return Path(os.environ.get("SOJOURN_CACHE") or Path.home() / ".cache" / "sojourn").absolute()


def digest(parts: Iterable[tuple[str, bytes]]) -> str:
    """Return 24 hex digits that identify a build by its inputs (name, content); the order does not matter."""
    total = hashlib.sha256()
    for name, content in sorted(parts):
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()[:24]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock for the block; the kernel releases it even after SIGKILL.

    Tools started meanwhile hold it too (`sojourn.hardware.build_tool.started`), so that none of them still writes when
    the next holder begins.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        lock(file.fileno(), wait=True)
        with held_unchanged:
            held.add(file.fileno())
        try:
            yield
        finally:
            with held_unchanged:
                held.remove(file.fileno())
            unlock(file.fileno())  # also for those that inherited it: another thread's tools


def remove_tree(path: Path) -> None:
    """Remove a folder, if there is one, as `files.remove_tree` does."""
    if os.path.lexists(path):
        files.remove_tree(path)


def let_read(tree: Path, secret: Container[str] = ()) -> None:
    """Let all users read what a tree's owner can read, whatever the umask; files named in `secret` stay unchanged.

    Machines started by root read the cache as another user.
    """
    for folder, _, names in os.walk(tree):
        for path in (folder, *(f"{folder}/{name}" for name in names if name not in secret)):
            if not os.path.islink(path):
                mode = stat.S_IMODE(os.lstat(path).st_mode)
                os.chmod(path, mode | (mode & 0o500) >> 3 | (mode & 0o500) >> 6)


def normalise_mtimes(tree: Path) -> None:
    """Give all files and folders below `tree` the same modification time, because web servers report it."""
    for folder, _, names in os.walk(tree):
        for path in (folder, *(f"{folder}/{name}" for name in names)):
            os.utime(path, (FIXED_TIME, FIXED_TIME), follow_symlinks=False)


def build_once(entry: Path, build: Callable[[Path], None], secret: Container[str] = ()) -> Path:
    """Return `entry`, calling `build(scratch)` first if it does not exist or differs from what was built.

    The scratch folder is created next to the entry and gets the entry's name only when it is complete and on disk. So
    neither concurrent builders nor a kill nor a power cut leave a partial entry. Its content is then recorded in a seal
    next to it. Size, times and inode of every file are compared at every use; contents if these differ, at the first
    use after every boot, once a day and after `doubt`. A cache on a read-only file system was checked by its provider.

    If root builds it, all users who can enter the cache may read it (see `let_read`). Raises BuildError if the cache
    belongs to another user.
    """
    if _is_lent(entry) and entry.is_dir():
        return entry
    check_owner()
    if _is_known(entry):
        return entry
    with locked(entry.with_name(f".{entry.name}.lock")):
        if damage := _damage(entry):
            scratch, damaged = (entry.with_name(f".{entry.name}.{what}") for what in ("partial", "damaged"))
            if entry.exists():
                check_owner(entry)
                _LOG.warning("%s: %s: rebuilding it", entry, damage)
            _sweep(entry.parent)
            remove_tree(scratch)
            scratch.mkdir(parents=True)
            build(scratch)
            if os.geteuid() == 0:  # its machines run as another user
                let_read(scratch, secret)
            seal = _sealed(scratch, contents(scratch))
            flush(scratch)
            remove_tree(damaged)
            if entry.exists():
                _put_aside(entry, damaged)
            replace_file(_seal(entry), seal)
            scratch.rename(entry)
            sync_folder(entry.parent)
            remove_tree(damaged)
    return entry


def doubt() -> None:
    """Have the contents of every entry compared at its next use. A read-only cache stays unchanged."""
    with suppress(OSError):
        (root() / _DOUBT).touch()


def _put_aside(entry: Path, aside: Path) -> None:
    try:
        entry.rename(aside)
    except OSError as error:
        if error.errno != errno.EXDEV:  # a layer below an overlay: its content cannot be renamed
            raise
        remove_tree(entry)


def _sweep(folder: Path) -> None:
    """Remove the scratch directories of builders that were killed: nobody holds their locks."""
    for scratch in folder.glob(".*.partial"):
        with scratch.with_suffix(".lock").open("w") as file:
            if lock(file.fileno()):
                remove_tree(scratch)


def check_owner(folder: Path | None = None) -> None:
    """Raise BuildError if the cache, or a `folder` of it, belongs to another user.

    What one user can change must not run as another user.
    """
    folder = folder or root()
    if not folder.exists():
        return
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        raise BuildError(
            f"the cache {folder} belongs to {_named(owner)}, but this process runs as {_named(os.geteuid())}; "
            "run as its owner, or set SOJOURN_CACHE to your own folder",
            code="not-writable",
        )


def _named(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _is_lent(entry: Path) -> bool:
    there = next(path for path in (entry, *entry.parents) if path.exists())
    return bool(os.statvfs(there).f_flag & os.ST_RDONLY)


def _is_known(entry: Path) -> bool:
    """Whether an entry was recently compared with its seal, and has not been written to since."""
    try:
        seal = json.loads(_seal(entry).read_text())
        lately = max(0.0, time.time() - _DAY_S, _doubted()) <= seal["checked"] <= time.time()
        return bool(entry.is_dir() and lately and seal["boot"] == _boot() and seal["stamps"] == _stamps(entry))
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _doubted() -> float:
    """When `doubt` was last called, Unix s; a future time means that the clock was set back."""
    try:
        when = (root() / _DOUBT).stat().st_mtime
    except OSError:
        return 0.0
    return when if when <= time.time() else 0.0


def _damage(entry: Path) -> str:
    """Compare an entry with its seal and renew the seal if they agree; return the difference.

    Only one process at a time may call it.
    """
    if _is_known(entry):
        return ""
    try:
        files = dict(json.loads(_seal(entry).read_text())["files"])
    except (OSError, ValueError, LookupError, TypeError):
        return "has no seal"
    try:
        there = contents(entry)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    if wrong := sorted(name for name in files.keys() | there.keys() if files.get(name) != there.get(name)):
        more = f" and {len(wrong) - 1} more are" if len(wrong) > 1 else " is"
        return f"{wrong[0]}{more} different from the build"
    if not entry.is_dir():
        return "is missing"
    replace_file(_seal(entry), _sealed(entry, files))
    return ""


def _sealed(tree: Path, files: dict[str, Any]) -> bytes:
    """Return the seal of an entry whose contents were just compared."""
    return json.dumps({"boot": _boot(), "checked": time.time(), "stamps": _stamps(tree), "files": files}).encode()


def _seal(entry: Path) -> Path:
    return entry.with_name(f".{entry.name}.seal")


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stamps(tree: Path) -> str:
    """Return a hash of path, size, times and inode of everything below `tree` except folders: any write changes it."""
    total = hashlib.sha256()
    for path in sorted(_files(tree)):
        status = os.lstat(path)
        entry = (os.path.relpath(path, tree), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        total.update(repr(entry).encode())
    return total.hexdigest()


def _files(tree: Path) -> Iterator[str]:
    """Yield every file and link below `tree`."""
    for folder, folders, names in os.walk(tree):
        for name in (*names, *(it for it in folders if os.path.islink(f"{folder}/{it}"))):
            yield f"{folder}/{name}"


def contents(tree: Path) -> dict[str, list[Any]]:
    """Return size and hash of every file and link below `tree`, by relative path. Raises OSError."""
    known: dict[int, list[Any]] = {}  # by inode: films are many links to few files
    return {os.path.relpath(path, tree): _hashed(path, known) for path in _files(tree)}


def _hashed(path: str, known: dict[int, list[Any]]) -> list[Any]:
    status = os.lstat(path)
    if status.st_ino not in known:
        if os.path.islink(path):
            content = hashlib.sha256(os.readlink(path).encode()).hexdigest()
        elif os.path.isfile(path):
            with open(path, "rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        else:
            content = DEVICE
        known[status.st_ino] = [status.st_size, content]
    return known[status.st_ino]
