# SPDX-License-Identifier: Apache-2.0
"""The viewer: browser, display and recorder run as a user without account or privileges, with its own home.

A page that breaks out of its browser becomes this user, who owns only its home, removed at exit.
"""

from __future__ import annotations

import functools
import os
import secrets
import shutil
import struct
import tempfile
from dataclasses import replace
from pathlib import Path

from sojourn.hardware.machine.place import LOCAL, CommandError, Place
from sojourn.hardware.machine.scratch import scratch_folder

#: A user id without an account: the first of those that systemd assigns to running services.
UID = 61184
_ANY_HOST = 0xFFFF
_COOKIE = b"MIT-MAGIC-COOKIE-1"


def viewer(place: Place, **environment: str) -> Place:
    """Return the same place for programs of the viewer, with `environment` added; see `as_viewer`.

    Raises ValueError for a place on another host.
    """
    if place.remote:
        raise ValueError(f"{place.name}: the viewer must be on this host")
    own = (f"{name}={value}" for name, value in environment.items())
    return replace(place, prefix=(*place.prefix, *as_viewer("--user" in place.prefix), *own))


def alone() -> Place:
    """Return a place on this host with a network namespace that has only a loopback."""
    users = () if becomes_viewer() else ("--user", "--map-root-user")
    up = ("sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    return Place("alone", (*LOCAL.prefix, "unshare", *users, "--net", "--", *up))


def as_viewer(inside: bool) -> tuple[str, ...]:
    """Return the prefix that runs a command as the viewer: not root, unable to become root, with its own HOME.

    A root that can switch users becomes UID. Others (plain users) keep their user on the host; within a user namespace
    they appear as UID. `inside` says that the command starts in one.
    """
    become: tuple[str, ...]
    if becomes_viewer():
        become = ("setpriv", "--pdeathsig", "KILL", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
        become += ("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--")
    else:
        enter = ("unshare", "--user", f"--map-user={UID}", f"--map-group={UID}", "--")
        become = enter if inside or os.geteuid() == 0 else ()
        become += ("setpriv", "--pdeathsig", "KILL", "--no-new-privs", "--")
    home = _home()
    own = {name: str(home) for name in ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")}
    own["XAUTHORITY"] = str(authority())
    return (*become, "env", *(f"{name}={value}" for name, value in own.items()))


def viewer_folder(suffix: str) -> Path:
    """Return a new empty folder of the viewer, which only the viewer and root can enter."""
    return _given(Path(tempfile.mkdtemp(suffix=suffix, dir=_home())))


@functools.cache
def for_viewer(path: Path) -> Path:
    """Return a path by which the viewer can read a file or folder: itself, or a copy if it is closed to other users."""
    if not becomes_viewer():
        return path
    copy = viewer_folder("-copy") / path.name
    if path.is_dir():
        shutil.copytree(path, copy)
    else:
        shutil.copyfile(path, copy)
    give(copy)
    return copy


def give(path: Path) -> None:
    """Make the viewer the owner of a file, or of a folder with its content."""
    for part in (path, *path.rglob("*")):
        _given(part)


@functools.cache
def authority() -> Path:
    """Return the file with the cookie by which an X server accepts clients; every Sojourn process creates a new one."""
    parts = (b"", b"", _COOKIE, secrets.token_bytes(16))  # any host, any display
    entry = struct.pack(">H", _ANY_HOST) + b"".join(struct.pack(">H", len(part)) + part for part in parts)
    file = _home() / "Xauthority"
    file.touch(0o600)
    file.write_bytes(entry)
    return _given(file)


@functools.cache
def sandbox_refusal() -> str | None:
    """Return why a browser has no sandbox here; None if it has one. It needs user, pid and network namespaces."""
    try:
        viewer(LOCAL).run(["unshare", "--user", "--pid", "--net", "--fork", "true"])
    except CommandError as refused:
        return f"a browser's sandbox needs user namespaces, which are not permitted here ({refused})"
    return None


def becomes_viewer() -> bool:
    """Whether this process is root and can switch to UID."""
    return maps_user(UID)


@functools.cache
def maps_user(user: int) -> bool:
    """Whether this process is root in a namespace that also maps the user id `user`."""
    if os.geteuid() != 0:
        return False
    users = Path("/proc/self/uid_map")
    if not users.exists():  # the kernel has no user namespaces
        return True
    ranges = [tuple(map(int, line.split())) for line in users.read_text().splitlines()]
    return any(first <= user < first + count for first, _, count in ranges)


@functools.cache
def _home() -> Path:
    home = scratch_folder("-viewer")
    if becomes_viewer():
        home.parent.chmod(0o711)  # traversable, not readable
    return _given(home)


def _given(path: Path) -> Path:
    if becomes_viewer():
        os.chown(path, UID, UID)
    return path
