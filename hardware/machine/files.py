# SPDX-License-Identifier: Apache-2.0
"""Files and paths, as every room uses them: written in one step, named by a user, where programs' messages go."""

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
from contextlib import suppress
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
"""The folder of the rooms: a checkout, or the package `sojourn` of a wheel, which is laid out like one."""
EXPERIMENTS = CHECKOUT / "tests"
"""The folder of the experiments' files."""
SETTINGS = CHECKOUT / "pyproject.toml"
"""The settings of pytest among others."""
LOCK = CHECKOUT / "requirements.txt"
"""The version of every dependency, with hashes."""
_LIBC = ctypes.CDLL(None, use_errno=True)
FRESH = ".new"
"""Ends the name of a file that is being written in place of another; a kill may leave it, and nobody reads it."""
LOGS = "logs"
"""The folder of a run that takes what its programs say."""


def replace_file(path: Path, content: bytes) -> None:
    """Write a file in one step, which a power cut does not undo; it keeps its mode, a new one is for its owner alone.

    Of several processes that do so at once the last one's content stays, whole. Raises OSError, the old file unharmed.
    """
    descriptor, fresh = _fresh(path)
    try:
        with open(descriptor, "wb") as file:
            if path.exists():
                os.fchmod(descriptor, stat.S_IMODE(path.stat().st_mode))
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
        except OSError:  # no locks there, and so no sweep
            return descriptor, fresh
        # Before it was locked, another's sweep may have removed it.
        with suppress(FileNotFoundError):
            if ours and os.path.samestat(os.fstat(descriptor), fresh.lstat()):
                return descriptor, fresh
        os.close(descriptor)


def _sweep_fresh(path: Path) -> None:
    """Remove what killed processes left that wrote a file: nobody has a lock on it."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.*{FRESH}"):
        with suppress(OSError):
            held = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if lock(held):
                    left.unlink()
            finally:
                os.close(held)


def read_foreign(file: Path, most: int, start: int | None = None) -> bytes:
    """Return at most `most` bytes of a file that somebody else writes: from `start` on, or its last; none without it.

    Whatever stands there, this does not wait. Raises OSError: BlockingIOError where its writer holds a lease on it,
    else for what is no plain file.
    """
    try:
        held = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        if not stat.S_ISREG((status := os.fstat(held)).st_mode):
            raise OSError(errno.EINVAL, "Not a plain file", str(file))
        return os.pread(held, most, max(0, status.st_size - most) if start is None else start)
    finally:
        os.close(held)


def owner_only(folder: Path) -> None:
    """Let nobody but their owner read or write a folder and all in it. Raises OSError."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():  # what one leads to is not ours
            path.chmod(0o700 if path.is_dir() else 0o600)


def open_folder(name: str | Path, within: int | None = None, owner: tuple[int, int] | None = None) -> int:
    """Return a descriptor of a folder, `within` that of another one, where others may put a link in its place.

    It is `owner`'s (user, group) from then on, who may read, write and enter it. Raises OSError, also for a link.
    """
    held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
    try:
        itself = f"/proc/self/fd/{held}"  # fchown and fchmod take no descriptor that is not open for reading
        if owner:
            os.chown(itself, *owner)
        mode = stat.S_IMODE(os.fstat(held).st_mode)
        if mode & 0o700 != 0o700:
            os.chmod(itself, mode | 0o700)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=held)
    finally:
        os.close(held)


def empty_folder(held: int) -> None:
    """Remove all that is in an open folder, of whatever depth; no link is followed. Raises OSError."""
    left = _lift(held, held)
    while left:
        inner = open_folder(name := left.pop(), held)
        try:
            left += _lift(inner, held)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=held)


def _lift(held: int, top: int) -> list[str]:
    """Remove the files of an open folder, and move its folders to `top`: so depth takes no recursion."""
    moved = []
    for name in os.listdir(held):
        if stat.S_ISDIR(os.stat(name, dir_fd=held, follow_symlinks=False).st_mode):
            os.close(open_folder(name, held))  # who moves a folder must be allowed to write it
            moved.append(secrets.token_hex(16))
            os.rename(name, moved[-1], src_dir_fd=held, dst_dir_fd=top)
        else:
            os.unlink(name, dir_fd=held)
    return moved


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, of whatever depth; no link is followed. Raises OSError."""
    held = open_folder(folder)
    try:
        empty_folder(held)
    finally:
        os.close(held)
    folder.rmdir()


def flush(folder: Path) -> None:
    """Let all that was written to the file system of a folder be on the disk, so that no power cut takes it back.

    Raises OSError for what could not be written.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _LIBC.syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Let the names in a folder be on the disk, such as one that was just given. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # not every file system can
            raise
    finally:
        os.close(descriptor)


def is_full(error: Exception) -> bool:
    """Tell whether what went wrong is that a disk, or the user's share of it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def lock(descriptor: int, *, wait: bool = False, shared: bool = False) -> bool:
    """Lock an open file or folder (flock(2), which the kernel undoes when its holder dies); tell whether it is ours.

    It is not when another holds it and we do not `wait`. Raises OSError where the file system has no such locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Let go of a lock, for every process that has it from us too."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def distrust(path: Path) -> str | None:
    """Return why a file that nobody named, found where we were called, is not to be followed; None if it may be.

    In a folder where others write it may be theirs, and what it says runs as us. Raises OSError.
    """
    for seen, what in ((path.lstat(), "link" if path.is_symlink() else "file"), (path.stat(), "file")):
        if seen.st_uid not in (0, os.geteuid()):
            return f"the {what} is user {seen.st_uid}'s, not yours; if you trust it, name it by its whole path"
    if seen.st_mode & stat.S_IWOTH:
        return f"everybody may write it; `chmod o-w {path}`, or name it by its whole path"
    if seen.st_mode & stat.S_IWGRP and (_listed(path) or not _alone_in(seen.st_gid)):
        return f"others of group {seen.st_gid} may write it; `chmod g-w {path}`, or name it by its whole path"
    return None


def _listed(path: Path) -> bool:
    """Whether a file has an access list, whose mask stands in place of the group's rights (acl(5))."""
    try:
        return "system.posix_acl_access" in os.listxattr(path)
    except OSError:  # a file system that has none
        return False


def _alone_in(group: int) -> bool:
    """Whether we are the only account in a group, as in the one that many systems make for each user."""
    others = (account for account in pwd.getpwall() if account.pw_uid != os.geteuid())
    try:
        us, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group).gr_mem
    except KeyError:  # of no account, or no group, that is known here
        return False
    return us.pw_gid == group and {*members} <= {us.pw_name} and all(one.pw_gid != group for one in others)


def expanded(text: str) -> Path:
    """Return a path with its `~` resolved. Raises ValueError for a home that nobody has."""
    try:
        return Path(text).expanduser()
    except RuntimeError as nobody:
        raise ValueError(f"{text!r}: {nobody}") from nobody


def log_file(run: Path, name: str) -> Path:
    """Return the file in the run directory where a program's own messages go."""
    folder = run / LOGS
    folder.mkdir(exist_ok=True)
    return folder / f"{name}.log"
