# SPDX-License-Identifier: Apache-2.0
"""What keeps a User-Mode Linux kernel, and whoever takes it over, to the files of its own machine.

Each program of a machine is a process of this host, and its root may mount whatever folder of the host the kernel's
process can open. So that process starts by `confine/`, which leaves it a few files, no network and no capabilities.
Decoders of films start by it too (`sojourn.hardware.confine.decoder`).
"""

from __future__ import annotations

import functools
import os
import re
import select
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from types import TracebackType

from sojourn.hardware import build_tool
from sojourn.hardware.machine.cache import BuildError, let_read
from sojourn.hardware.machine.files import empty_folder, open_folder
from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.scratch import SHM, scratch_folder
from sojourn.hardware.machine.viewer import maps_user

#: A number of nobody's account, next to the viewer's: no viewer may signal a machine, or read its memory.
UID = 61185
DECODER_UID = 61186
"""The next one: of programs that read a stranger's film."""
SYSTEM = tuple(map(Path, ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")))
"""What a program of a distribution starts with."""
VARIABLE = "SOJOURN_CONFINEMENT"
#: Capabilities by their bits (capabilities(7)): chown, setgid and setuid.
_BECOME_OTHERS = 1 << 0 | 1 << 6 | 1 << 7
_PROBE_BYTES = 1 << 20
#: What a machine's tmpfs holds next to its memory: the kernel tries it first with a page.
_SPARE_BYTES = 1 << 20
DEPTH = 16
"""How deeply folders may be nested that a machine leaves."""
_FILE_BYTES = 8 << 30
"""How long a file may become that is not a machine's memory: a sparse one of terabytes takes none of the disk, and
for ever to read.
"""
#: Bytes in a machine's files that may be holes, in all. A file system that compresses reports such ones too.
_HOLE_BYTES = 8 << 30
#: In which st_blocks counts (stat(2)).
_BLOCK_BYTES = 512
#: How many processes a machine's user may have, for each core. As root it is one user for all machines; one with
#: browsers has some 75.
_PROCESSES, _LEAST_PROCESSES = 1024, 8192
#: How long what was killed may take to be gone, s: it may have to free all of a machine's memory.
_END_S = 60.0


class Confinement(StrEnum):
    """What confines a machine."""

    NAMESPACES = "namespaces"
    """Its own mount, pid, user, network, ipc, uts and cgroup namespaces."""
    LANDLOCK = "landlock"
    """Landlock, where namespaces are refused, as in many containers."""
    NONE = "none"
    """Nothing, where the user asks for it by `SOJOURN_CONFINEMENT=none`."""


class ConfinementError(RuntimeError):
    """Nothing confines a machine here, or a machine left what nobody should open; one line."""


def ensure_launcher() -> Path:
    """The program that starts a machine confined, compiled now if the cache does not have it. Raises BuildError."""
    return build_tool.ensure_program("confine", Path(__file__).parent)


@functools.cache
def confinement() -> Confinement:
    """Return what confines machines here, as a start of each shows; `SOJOURN_CONFINEMENT` names one.

    Raises ConfinementError where there is none, BuildError.
    """
    if wanted := os.environ.get(VARIABLE):
        if wanted not in list(Confinement):
            raise ConfinementError(f"{VARIABLE}={wanted}: give {', '.join(Confinement)}")
        kinds = [Confinement(wanted)]
    else:
        kinds = [Confinement.NAMESPACES, Confinement.LANDLOCK]
    refused = []
    for kind in kinds:
        if not (why := refusal(kind)):
            return kind
        refused.append(f"{kind}: {why}")
    raise ConfinementError(
        f"a machine cannot be confined here ({'; '.join(refused)}): allow user namespaces or Landlock; or, if "
        f"everything that will run in it is trusted, set {VARIABLE}=none"
    )


def refusal(kind: Confinement) -> str:
    """Return why machines cannot be confined so here; empty where they can. Raises BuildError."""
    launcher = ensure_launcher()
    with Jail({"linux": launcher}, {}, _PROBE_BYTES, kind=kind) as jail:
        done = subprocess.run(
            jail.argv(["./linux", "works"], {}), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    return "" if done.returncode == 0 else done.stderr.strip().removeprefix("confine: ") or f"exit {done.returncode}"


class Jail:
    """What a machine can reach; its programs start by `argv`, and find it in their working directory.

    Left as a context, it waits until nothing runs that could write, and takes that back: see `settle`.
    Where something does not end, that stays as it is.

    Args:
        reads: files and folders of the host that it can read, by their names; FOLDER/NAME for some of a folder, whose
            names must be theirs there.
        writes: folders that it can change.
        memory: bytes that it may have in the folder `memory`; 0: no such folder.
        packets: whether it has the network namespace that it is started in, and packet sockets.
        trace: whether its programs may trace each other, as the kernel needs with `seccomp=off`.
        libraries: files and folders that keep their paths; default: those that the program `linux` starts with.
        user: whom a root lets its programs be.
        kind: default: `confinement()`.

    Raises ConfinementError and BuildError, when entered; ConfinementError when left.
    """

    def __init__(
        self,
        reads: Mapping[str, Path],
        writes: Mapping[str, Path],
        memory: int,
        *,
        packets: bool = False,
        trace: bool = False,
        libraries: Sequence[Path] | None = None,
        user: int = UID,
        kind: Confinement | None = None,
    ) -> None:
        self._libraries, self._as = libraries, user
        self._reads, self._writes, self._memory = reads, dict(writes), memory
        self._packets, self._trace, self._kind = packets, trace, kind
        self._stack = ExitStack()

    def __enter__(self) -> Jail:
        self.kind = self._kind or confinement()
        #: Who the machine is on this host; None: who we are.
        self.user = None if self._packets else machine_user(self.kind, self._as)
        with ExitStack() as stack:
            self.folder = scratch_folder("-machine")
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            if self.user is not None:
                os.chown(self.folder, self.user, self.user)
            if self._memory and self.kind is not Confinement.NAMESPACES:
                within = memory_folder(self._memory)
                memory = scratch_folder("-memory", within=within if within == SHM else None)
                stack.callback(shutil.rmtree, memory, ignore_errors=True)
                self._writes["memory"] = memory
            self._alive = self.folder.with_name(f"{self.folder.name}-alive")
            os.mkfifo(self._alive, 0o600)
            stack.callback(self._alive.unlink)
            for path in self._reads.values() if self.user is not None else ():
                if path.stat().st_mode & 0o005 != 0o005:  # made under a strict umask, before all could read the cache
                    let_read(path)
            owners: dict[Path, tuple[int, int] | None] = {}
            stack.callback(self._take_back, owners)
            for folder in {path.absolute() for path in self._writes.values()}:
                status = folder.stat()
                owners[folder] = (status.st_uid, status.st_gid) if self.user is not None else None
                if self.user is not None:
                    lend(folder, self.user)
            self._stack = stack.pop_all()
        return self

    def argv(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        *,
        core: int | None = None,
        parent: int | None = None,
    ) -> list[str]:
        """The command that starts `words` in here, with this environment alone, on the processor `core`.

        With `parent`, our pid, it does not start once that process has ended.
        """
        options = [f"--read={name}={path.absolute()}" for name, path in self._reads.items()]
        # Without a root of its own it finds parts of a folder by that folder.
        above = {name.split("/")[0]: path.absolute().parent for name, path in self._reads.items() if "/" in name}
        options += [f"--above={name}={path}" for name, path in above.items()]
        options += [f"--write={name}={path.absolute()}" for name, path in self._writes.items()]
        shown = libraries(self._reads["linux"]) if self._libraries is None else self._libraries
        options += [f"--library={path}" for path in shown]
        options += [f"--env={name}={value}" for name, value in environment.items()]
        processes = max(_LEAST_PROCESSES, _PROCESSES * (os.cpu_count() or 1))
        options += [
            f"--processes={processes}",
            f"--here={self.folder}",
            f"--alive={self._alive}",
            f"--file={self._memory + _FILE_BYTES}",
        ]
        if self._memory and self.kind is Confinement.NAMESPACES:
            options.append(f"--memory={self._memory + _SPARE_BYTES}")
        for name, value in (("user", self.user), ("core", core), ("parent", parent)):
            options += [] if value is None else [f"--{name}={value}"]
        flags = {"packets": self._packets, "trace": self._trace, "random": self._libraries is not None}
        options += [f"--{name}" for name, wanted in flags.items() if wanted]
        return [str(ensure_launcher()), self.kind, *options, "--", *words]

    def _take_back(self, owners: Mapping[Path, tuple[int, int] | None]) -> None:
        if owners and not self._ended():  # what could write nothing may run on
            raise ConfinementError(
                f"a machine's processes still run {_END_S:g} s after their end: {', '.join(map(str, owners))} not read"
            )
        with ExitStack() as stack:
            for folder, owner in owners.items():
                stack.callback(settle, folder, owner)

    def _ended(self) -> bool:
        """Wait until nothing runs that was started by `argv`: it would hold the FIFO open."""
        held = os.open(self._alive, os.O_RDONLY | os.O_NONBLOCK)
        try:
            os.close(os.open(self._alive, os.O_WRONLY))  # a hang-up is seen only after somebody was there
            ready = select.poll()
            ready.register(held, 0)
            return bool(ready.poll(_END_S * 1000))
        finally:
            os.close(held)

    def close(self) -> None:
        """Leave it; the launchers of its programs must have ended. Safe to call twice. Raises ConfinementError."""
        self._stack.close()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except ConfinementError:
            if value is None:  # else what went wrong first is told
                raise


def machine_user(kind: Confinement, user: int = UID) -> int | None:
    """Return `user` where a root can let its machines be that; None where they are who we are."""
    if kind is Confinement.NONE or not maps_user(user):
        return None
    status = Path("/proc/self/status").read_text()
    capabilities = int(re.search(r"^CapEff:\s*(\w+)$", status, re.MULTILINE)[1], 16)  # type: ignore[index]
    return user if capabilities & _BECOME_OTHERS == _BECOME_OTHERS else None


def lend(folder: Path, user: int) -> None:
    """Let a folder with all in it be another user's. Raises OSError."""

    def refuse(error: OSError) -> None:
        raise error

    for _, folders, files, held in os.fwalk(folder, onerror=refuse):
        os.fchown(held, user, user)
        for name in (*folders, *files):
            os.chown(name, user, user, dir_fd=held, follow_symlinks=False)


def settle(folder: Path, owner: tuple[int, int] | None = None) -> None:
    """Take back a folder from a machine that has ended: all in it are files and folders that we may read, of `owner`.

    Links, sockets and devices go: who reads a run would follow them out of it. So do folders that are nested more
    deeply than DEPTH, what has a name that no terminal can show, and long files that hold next to nothing. Raises
    ConfinementError, once all is done, naming those and what cannot be looked at.
    """
    odd = list[str]()
    try:
        held = open_folder(folder.resolve(), owner=owner)
    except OSError as failed:
        raise ConfinementError(f"{folder}: {failed.strerror}") from failed
    try:
        _Settling(owner, odd).settle(held, Path())
    finally:
        os.close(held)
    if odd:
        named = ", ".join(map(printable, sorted(odd)[:5]))
        raise ConfinementError(f"{folder}: the machine left {named}: no plain files or folders; removed")


class _Settling:
    """The way through a folder, by descriptors alone: a path would lead through what became a link after we looked."""

    def __init__(self, owner: tuple[int, int] | None, odd: list[str]) -> None:
        self._owner, self._odd, self._holes = owner, odd, 0

    def settle(self, held: int, path: Path) -> None:
        """Settle what is in an open folder, which is `path` below the first."""
        for name in os.listdir(held):
            try:
                if why := self._one(held, name, path):
                    self._odd.append(why)
            except FileNotFoundError:
                pass
            except OSError as failed:
                self._odd.append(f"{str(path / name)[:100]} ({failed.strerror})")

    def _one(self, held: int, name: str, path: Path) -> str:
        """Settle what has this name; return what it was if it had to go, else nothing. Raises OSError."""
        status = os.stat(name, dir_fd=held, follow_symlinks=False)
        called, said = str(path / name), name.isprintable()
        if stat.S_ISDIR(status.st_mode):
            inner = open_folder(name, held, self._owner)
            try:
                if said and len(path.parts) < DEPTH:
                    self.settle(inner, path / name)
                    return ""
                empty_folder(inner)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=held)
            return f"{str(path)[:100]} (more than {DEPTH} nested folders)" if said else called[:100]
        if stat.S_ISREG(status.st_mode) and said:
            self._holes += max(0, status.st_size - status.st_blocks * _BLOCK_BYTES)
            if self._holes <= _HOLE_BYTES:
                if self._owner:
                    os.chown(name, *self._owner, dir_fd=held, follow_symlinks=False)
                return ""
            self._holes -= status.st_size - status.st_blocks * _BLOCK_BYTES
            called += f" ({status.st_size} bytes, of which the disk holds {status.st_blocks * _BLOCK_BYTES})"
        os.unlink(name, dir_fd=held)
        return called


@functools.cache
def libraries(program: Path) -> tuple[Path, ...]:
    """The loader and libraries of this host that a program starts with; none of one that needs none."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    return tuple(Path(path) for path in re.findall(r"(/\S+) \(0x", done.stdout))


def memory_folder(memory: int) -> Path:
    """Return where the file that is a machine's `memory`, bytes, lies without namespaces: in memory, or on a disk.

    Containers have a /dev/shm of 64 MB, from which nothing may be run.
    """
    runs = SHM.is_dir() and not os.statvfs(SHM).f_flag & os.ST_NOEXEC
    fits = runs and shutil.disk_usage(SHM).total >= memory
    return SHM if fits else Path(tempfile.gettempdir())


def memory_room(memory: int) -> tuple[int, Path | None]:
    """Return the bytes that are free where a machine's `memory` lies, and where that is; None: in memory alone."""
    try:
        kind = confinement()
    except (ConfinementError, BuildError):  # told when the machine starts
        kind = Confinement.NAMESPACES
    if kind is Confinement.NAMESPACES:
        return 1 << 62, None
    folder = memory_folder(memory)
    return shutil.disk_usage(folder).free, folder
