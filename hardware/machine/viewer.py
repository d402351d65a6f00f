# SPDX-License-Identifier: Apache-2.0
"""Who looks at the screen: browser, display and recorder are nobody's user, without privileges, with a home of theirs.

What a page breaks out of its browser into is this user: it owns nothing but its home, which goes when we do.
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

#: A number of nobody's account: the first of those that systemd gives to services for as long as they run.
UID = 61184
_ANY_HOST = 0xFFFF
_COOKIE = b"MIT-MAGIC-COOKIE-1"


def viewer(place: Place, **environment: str) -> Place:
    """Return the same place for programs of the viewer, with `environment` added; see `as_viewer`.

    Raises ValueError for a place on another host.
    """
    if place.remote:
        raise ValueError(f"{place.name}: the viewer is on our own host")
    own = (f"{name}={value}" for name, value in environment.items())
    return replace(place, prefix=(*place.prefix, *as_viewer("--user" in place.prefix), *own))


def alone() -> Place:
    """Return a place of this host with a network of its own, in which there is nothing but a loopback."""
    users = () if becomes_viewer() else ("--user", "--map-root-user")
    up = ("sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    return Place("alone", (*LOCAL.prefix, "unshare", *users, "--net", "--", *up))


def as_viewer(inside: bool) -> tuple[str, ...]:
    """Return what makes a command's process the viewer's, before it: not root nor able to become it, HOME its own.

    A root that may become others becomes UID. Who may not (a plain user) keeps the user that they are on the host, and
    is UID for all that can be seen within a user namespace, where `inside` tells that the command starts in one.
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
    """Return a new empty folder of the viewer's, which nobody else but root can enter."""
    return _given(Path(tempfile.mkdtemp(suffix=suffix, dir=_home())))


@functools.cache
def for_viewer(path: Path) -> Path:
    """Return what the viewer reads a file or folder by: itself, or where another user's are closed to it, a copy."""
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
    """Make a file, or a folder with all that is in it, the viewer's own."""
    for part in (path, *path.rglob("*")):
        _given(part)


@functools.cache
def authority() -> Path:
    """Return the file by which an X server knows its clients: a cookie, drawn anew by each process of ours."""
    parts = (b"", b"", _COOKIE, secrets.token_bytes(16))  # of any host, any display
    entry = struct.pack(">H", _ANY_HOST) + b"".join(struct.pack(">H", len(part)) + part for part in parts)
    file = _home() / "Xauthority"
    file.touch(0o600)
    file.write_bytes(entry)
    return _given(file)


@functools.cache
def sandbox_refusal() -> str | None:
    """Why a browser has no sandbox here; None where it has: it makes itself namespaces of users, pids and network."""
    try:
        viewer(LOCAL).run(["unshare", "--user", "--pid", "--net", "--fork", "true"])
    except CommandError as refused:
        return f"a browser's sandbox needs user namespaces, which are refused here ({refused})"
    return None


def becomes_viewer() -> bool:
    """Whether we are a root that may be UID as well."""
    return maps_user(UID)


@functools.cache
def maps_user(user: int) -> bool:
    """Whether we are a root in whose namespace there is a `user` with this number: not its only one."""
    if os.geteuid() != 0:
        return False
    users = Path("/proc/self/uid_map")
    if not users.exists():  # a kernel without user namespaces
        return True
    ranges = [tuple(map(int, line.split())) for line in users.read_text().splitlines()]
    return any(first <= user < first + count for first, _, count in ranges)


@functools.cache
def _home() -> Path:
    home = scratch_folder("-viewer")
    if becomes_viewer():
        home.parent.chmod(0o711)  # to be gone through, not to be read
    return _given(home)


def _given(path: Path) -> Path:
    if becomes_viewer():
        os.chown(path, UID, UID)
    return path
