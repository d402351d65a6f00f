# SPDX-License-Identifier: Apache-2.0
"""Files and paths for all rooms: atomic writes, paths from users, logs of programs."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import grp
import os
import pwd
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
"""The folder of the rooms: a checkout, or the package `sojourn` of a wheel, which is laid out like one."""
EXPERIMENTS = CHECKOUT / "tests"
"""The folder of the experiments' files."""
LOCK = CHECKOUT / "requirements.txt"
"""The version of every dependency, with hashes."""
_LIBC = ctypes.CDLL(None, use_errno=True)
FRESH = ".new"
"""Suffix of a file that is being written to replace another; a kill may leave it behind, and nobody reads it."""
LOGS = "logs"
"""The folder of a run for its programs' output."""


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file atomically and durably; it keeps its mode, and a new file has `mode`.

    With concurrent writers, the last one's content wins, complete. Raises OSError and keeps the old file.
    """
    descriptor, fresh = _fresh(path)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, stat.S_IMODE(path.stat().st_mode) if path.exists() else mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
            fresh.replace(path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    _sweep_fresh(path)
    sync_folder(path.parent)


def _fresh(path: Path) -> tuple[int, Path]:
    """Open a new file next to `path`, locked for as long as it is open. Raises OSError."""
    while True:
        fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}{FRESH}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            ours = lock(descriptor)
        except OSError:  # the file system has no locks, so there is no sweep
            return descriptor, fresh
        # Another process's sweep may have removed it before it was locked.
        with suppress(FileNotFoundError):
            if ours and os.path.samestat(os.fstat(descriptor), fresh.lstat()):
                return descriptor, fresh
        os.close(descriptor)


def _sweep_fresh(path: Path) -> None:
    """Remove files that killed writers left: nobody holds a lock on them."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.*{FRESH}"):
        with suppress(OSError):
            held = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if lock(held):
                    left.unlink()
            finally:
                os.close(held)


def plain(file: str | Path, flags: int = os.O_RDONLY) -> int:
    """Return a descriptor of a plain file; usable as the `opener` of `open`. It never blocks, whatever the file is.

    Raises OSError: BlockingIOError if its writer holds a lease on it, otherwise if it is not a plain file.
    """
    held = os.open(file, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(held).st_mode):
        return held
    os.close(held)
    raise OSError(errno.EINVAL, "Not a plain file", str(file))


def read_foreign(file: Path, most: int, start: int | None = None) -> bytes:
    """Return at most `most` bytes of a file that another process writes: from `start`, or the last ones; empty without
    a file.

    It follows no link and never blocks. Raises OSError as `plain` does.
    """
    try:
        held = plain(file, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(held, most, max(0, os.fstat(held).st_size - most) if start is None else start)
    finally:
        os.close(held)


def owner_only(folder: Path) -> None:
    """Let only the owner read or write a folder and its content. Raises OSError."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():  # its target is not part of the folder
            path.chmod(0o700 if path.is_dir() else 0o600)


def open_folder(name: str | Path, within: int | None = None, owner: tuple[int, int] | None = None) -> int:
    """Return a descriptor of a folder, relative to `within`, where others may replace it by a link.

    The folder then belongs to `owner` (user, group), who may read, write and enter it. Raises OSError, also for a link.
    """
    held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
    try:
        itself = f"/proc/self/fd/{held}"  # fchown and fchmod require a descriptor that is open for reading
        if owner:
            os.chown(itself, *owner)
        mode = stat.S_IMODE(os.fstat(held).st_mode)
        if mode & 0o700 != 0o700:
            os.chmod(itself, mode | 0o700)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=held)
    finally:
        os.close(held)


def empty_folder(held: int) -> None:
    """Remove the content of an open folder at any depth, without following links. Raises OSError."""
    left = _lift(held, held)
    while left:
        inner = open_folder(name := left.pop(), held)
        try:
            left += _lift(inner, held)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=held)


def _lift(held: int, top: int) -> list[str]:
    """Remove the files of an open folder and move its folders to `top`: so any depth works without recursion."""
    moved = []
    for name in os.listdir(held):
        if stat.S_ISDIR(os.stat(name, dir_fd=held, follow_symlinks=False).st_mode):
            os.close(open_folder(name, held))  # moving a folder requires write permission for it
            moved.append(secrets.token_hex(16))
            os.rename(name, moved[-1], src_dir_fd=held, dst_dir_fd=top)
        else:
            os.unlink(name, dir_fd=held)
    return moved


def remove_tree(folder: Path) -> None:
    """Remove a folder and its content at any depth, without following links. Raises OSError."""
    held = open_folder(folder)
    try:
        empty_folder(held)
    finally:
        os.close(held)
    folder.rmdir()


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """Give a descriptor of a folder for the block. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def flush(folder: Path) -> None:
    """Flush everything written to a folder's file system to the disk, so that it survives a power cut.

    Raises OSError if something could not be written.
    """
    with opened(folder) as descriptor:
        if _LIBC.syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, for example after a rename. Raises OSError."""
    with opened(folder) as descriptor:
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # not every file system supports it
                raise


def is_full(error: BaseException) -> bool:
    """Whether the error is a full disk or an exceeded quota."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def lock(descriptor: int, *, wait: bool = False, shared: bool = False) -> bool:
    """Lock an open file or folder (flock(2), released by the kernel when the holder dies); return whether it succeeded.

    It fails if another process holds the lock and `wait` is False. Raises OSError if the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def is_locked(place: Path) -> bool:
    """Return whether another process holds the lock of a file or folder; False without one, or without locks."""
    try:
        held = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not lock(held, shared=True)
    except OSError:
        return False
    finally:
        os.close(held)


def unlock(descriptor: int) -> None:
    """Release a lock, also for processes that inherited it."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def distrust(path: Path) -> str | None:
    """Return why a file found in the working directory, not named by the user, must not be used; None if it may be.

    In a folder that others can write to, it may be theirs, and its content would run as this user. Raises OSError.
    """
    for seen, what in ((path.lstat(), "link" if path.is_symlink() else "file"), (path.stat(), "file")):
        if seen.st_uid not in (0, os.geteuid()):
            return f"the {what} belongs to user {seen.st_uid}, not to you; if you trust it, give its absolute path"
    if not stat.S_ISREG(seen.st_mode):
        return "it is not a plain file"
    if seen.st_mode & stat.S_IWOTH:
        return f"everybody can write to it; run `chmod o-w {path}`, or give its absolute path"
    if seen.st_mode & stat.S_IWGRP and (_listed(path) or not _alone_in(seen.st_gid)):
        return f"others in group {seen.st_gid} can write to it; run `chmod g-w {path}`, or give its absolute path"
    return None


def _listed(path: Path) -> bool:
    """Whether a file has an access control list, whose mask replaces the group's rights (acl(5))."""
    try:
        return "system.posix_acl_access" in os.listxattr(path)
    except OSError:  # the file system has none
        return False


def _alone_in(group: int) -> bool:
    """Whether this user is the only account in a group, such as the private group that many systems create."""
    others = (account for account in pwd.getpwall() if account.pw_uid != os.geteuid())
    try:
        us, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group).gr_mem
    except KeyError:  # an account or group that is unknown here
        return False
    return us.pw_gid == group and {*members} <= {us.pw_name} and all(one.pw_gid != group for one in others)


def expanded(text: str) -> Path:
    """Return a path with its `~` resolved. Raises ValueError for an unknown user's home."""
    try:
        return Path(text).expanduser()
    except RuntimeError as nobody:
        raise ValueError(f"{text!r}: {nobody}") from nobody


def log_file(run: Path, name: str) -> Path:
    """Return the file in the run directory for a program's messages."""
    folder = run / LOGS
    folder.mkdir(exist_ok=True)
    return folder / f"{name}.log"
