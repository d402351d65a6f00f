# SPDX-License-Identifier: Apache-2.0
"""Confine a User-Mode Linux kernel, and whoever takes it over, to the files of its own machine.

Every program of a machine is a process of this host, and the machine's root can mount any host folder that the kernel's
process can open. So `confine/` starts that process with access to a few files, no network and no capabilities.
It also starts film decoders (`sojourn.hardware.confine.decoder`).
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
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.files import empty_folder, open_folder
from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.scratch import SHM, scratch_folder
from sojourn.hardware.machine.viewer import maps_user

#: A user id without an account, next to the viewer's: a viewer can neither signal a machine nor read its memory.
UID = 61185
DECODER_UID = 61186
"""The next user id: for programs that read a third-party film."""
SYSTEM = tuple(map(Path, ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")))
"""The files that a distribution's program needs to start."""
VARIABLE = "SOJOURN_CONFINEMENT"
#: Capabilities by bit (capabilities(7)): chown, setgid and setuid.
_BECOME_OTHERS = 1 << 0 | 1 << 6 | 1 << 7
_PROBE_BYTES = 1 << 20
#: Space in a machine's tmpfs besides its memory: the kernel first tries it with one page.
_SPARE_BYTES = 1 << 20
DEPTH = 16
"""The maximum nesting of folders that a machine leaves behind."""
_FILE_BYTES = 8 << 30
"""The maximum length of a file other than a machine's memory: a sparse file of terabytes takes no disk space, but
reading it takes forever.
"""
#: Total bytes of holes allowed in a machine's files. A compressing file system reports holes too.
_HOLE_BYTES = 8 << 30
#: The unit of st_blocks (stat(2)).
_BLOCK_BYTES = 512
#: How many processes a machine's user may have, per core. With root, all machines share one user; a machine with
#: browsers has about 75.
_PROCESSES, _LEAST_PROCESSES = 1024, 8192
#: How long killed processes may take to end, s: they may have to free all of a machine's memory.
_END_S = 60.0


class Confinement(StrEnum):
    """The mechanism that confines a machine."""

    NAMESPACES = "namespaces"
    """Its own mount, pid, user, network, ipc, uts and cgroup namespaces."""
    LANDLOCK = "landlock"
    """Landlock, where namespaces are refused, as in many containers."""
    NONE = "none"
    """No confinement, by the user's `SOJOURN_CONFINEMENT=none`."""


class ConfinementError(CodedError):
    """No mechanism works here, or a machine left files that must not be opened; one line."""


def ensure_launcher() -> Path:
    """Return the program that starts a confined machine, compiled now if it is not in the cache. Raises BuildError."""
    return build_tool.ensure_program("confine", Path(__file__).parent)


@functools.cache
def confinement() -> Confinement:
    """Return the first mechanism that works here, by trial; `SOJOURN_CONFINEMENT` selects one.

    Raises ConfinementError if none works, BuildError.
    """
    if wanted := os.environ.get(VARIABLE):
        if wanted not in list(Confinement):
            raise ConfinementError(
                f"{VARIABLE}={wanted} is unknown; give {', '.join(Confinement)}", code="unknown-value"
            )
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
        f"everything that will run in it is trusted, set {VARIABLE}=none",
        code="unsupported",
    )


def refusal(kind: Confinement) -> str:
    """Return why this mechanism does not work here; empty if it works. Raises BuildError."""
    launcher = ensure_launcher()
    with Jail({"linux": launcher}, {}, _PROBE_BYTES, kind=kind) as jail:
        done = subprocess.run(
            jail.argv(["./linux", "works"], {}), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    return "" if done.returncode == 0 else done.stderr.strip().removeprefix("confine: ") or f"exit {done.returncode}"


class Jail:
    """The files and devices that a machine can reach; its programs start by `argv` and find them in their working
    directory.

    On exit, it waits until no process can write any more, and takes the written files back: see `settle`.
    If a process does not end, its files stay as they are.

    Args:
        reads: files and folders of the host that it can read, by name; FOLDER/NAME for a part of a folder, which
            must have that name there.
        writes: folders that it can change.
        memory: bytes that it may use in the folder `memory`; 0: no such folder.
        packets: whether it has the network namespace of its caller, and packet sockets.
        trace: whether its programs may trace each other, as the kernel needs with `seccomp=off`.
        libraries: files and folders that keep their paths; default: those that the program `linux` needs to start.
        user: the user of its programs if the caller is root.
        kind: default: `confinement()`.

    Raises ConfinementError and BuildError on entry; ConfinementError on exit.
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
        #: The machine's user on this host; None: this process's user.
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
                if path.stat().st_mode & 0o005 != 0o005:  # created under a strict umask
                    let_read(path)
            before: dict[Path, os.stat_result] = {}
            stack.callback(self._take_back, before)
            for folder in {path.absolute() for path in self._writes.values()}:
                before[folder] = folder.stat()
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
        """Return the command that starts `words` in this jail, with only this environment, on the processor `core`.

        With `parent`, the caller's pid, it does not start if that process has ended.
        """
        options = [f"--read={name}={path.absolute()}" for name, path in self._reads.items()]
        # Without its own root, it finds parts of a folder through that folder.
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

    def _take_back(self, before: Mapping[Path, os.stat_result]) -> None:
        if before and not self._ended():  # processes that can write nothing may go on
            raise ConfinementError(
                f"processes of a machine still run {_END_S:g} s after its end, so these files were not read: "
                f"{', '.join(map(str, before))}",
                code="not-ended",
            )
        with ExitStack() as stack:
            for folder, status in before.items():
                owner = (status.st_uid, status.st_gid) if self.user is not None else None
                stack.callback(settle, folder, owner, stat.S_IMODE(status.st_mode))

    def _ended(self) -> bool:
        """Wait until all processes started by `argv` have ended: they hold the FIFO open."""
        held = os.open(self._alive, os.O_RDONLY | os.O_NONBLOCK)
        try:
            os.close(os.open(self._alive, os.O_WRONLY))  # a hang-up is reported only after somebody had it open
            ready = select.poll()
            ready.register(held, 0)
            return bool(ready.poll(_END_S * 1000))
        finally:
            os.close(held)

    def close(self) -> None:
        """Close the jail; its programs' launchers must have ended. Safe to call twice. Raises ConfinementError."""
        self._stack.close()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except ConfinementError:
            if value is None:  # otherwise the first error is raised
                raise


def machine_user(kind: Confinement, user: int = UID) -> int | None:
    """Return `user` if the caller is root and can switch to it; None if machines run as the caller."""
    if kind is Confinement.NONE or not maps_user(user):
        return None
    status = Path("/proc/self/status").read_text()
    capabilities = int(re.search(r"^CapEff:\s*(\w+)$", status, re.MULTILINE)[1], 16)  # type: ignore[index]
    return user if capabilities & _BECOME_OTHERS == _BECOME_OTHERS else None


def lend(folder: Path, user: int) -> None:
    """Change the owner of a folder and its content. Raises OSError."""

    def refuse(error: OSError) -> None:
        raise error

    for _, folders, files, held in os.fwalk(folder, onerror=refuse):
        os.fchown(held, user, user)
        for name in (*folders, *files):
            os.chown(name, user, user, dir_fd=held, follow_symlinks=False)


def settle(folder: Path, owner: tuple[int, int] | None = None, mode: int | None = None) -> None:
    """Take back a folder from a machine that has ended: it then holds only readable files and folders, owned by
    `owner`.

    The folder gets `mode`, which it had before the machine ran (default: the mode that it has). Its content grants
    nobody more rights than the folder does. Links, sockets and devices are removed: readers of a run could follow them
    out of it. So are folders nested more deeply than DEPTH, unprintable names, and long files that are mostly holes.
    Raises ConfinementError at the end, naming these and whatever cannot be examined.
    """
    odd = list[str]()
    try:
        held = open_folder(folder.resolve(), owner=owner)
    except OSError as failed:
        raise ConfinementError(f"{folder}: {failed.strerror}", code="unreadable-file") from failed
    try:
        if mode is None:
            mode = stat.S_IMODE(os.fstat(held).st_mode)
        os.fchmod(held, mode | 0o700)
        _Settling(owner, odd, mode).settle(held, Path())
    finally:
        os.close(held)
    if odd:
        named = ", ".join(map(printable, sorted(odd)[:5]))
        raise ConfinementError(
            f"{folder}: the machine left {named}: not plain files or folders, removed", code="not-a-file"
        )


class _Settling:
    """Walks a folder by descriptors only: a path could lead through a link that was swapped in after the check."""

    def __init__(self, owner: tuple[int, int] | None, odd: list[str], mode: int) -> None:
        self._owner, self._odd, self._mode, self._holes = owner, odd, mode, 0

    def settle(self, held: int, path: Path) -> None:
        """Settle the content of an open folder, which is `path` below the first."""
        for name in os.listdir(held):
            try:
                if why := self._one(held, name, path):
                    self._odd.append(why)
            except FileNotFoundError:
                pass
            except OSError as failed:
                self._odd.append(f"{str(path / name)[:100]} ({failed.strerror})")

    def _one(self, held: int, name: str, path: Path) -> str:
        """Settle one entry; return its description if it was removed, otherwise nothing. Raises OSError."""
        status = os.stat(name, dir_fd=held, follow_symlinks=False)
        called, said = str(path / name), name.isprintable()
        if stat.S_ISDIR(status.st_mode):
            inner = open_folder(name, held, self._owner)
            try:
                if said and len(path.parts) < DEPTH:
                    self._limit(inner, stat.S_IMODE(status.st_mode), 0o700, self._mode | 0o700)
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
                file = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=held)
                try:
                    self._limit(file, stat.S_IMODE(status.st_mode), 0o600, self._mode & 0o777 | 0o700)
                finally:
                    os.close(file)
                return ""
            self._holes -= status.st_size - status.st_blocks * _BLOCK_BYTES
            called += f" ({status.st_size} bytes, of which the disk stores {status.st_blocks * _BLOCK_BYTES})"
        os.unlink(name, dir_fd=held)
        return called

    def _limit(self, opened: int, mode: int, least: int, most: int) -> None:
        """Give the owner the rights `least` to a file or folder, and remove all rights beyond `most`."""
        if (limited := (mode | least) & most) != mode:
            os.chmod(f"/proc/self/fd/{opened}", limited)  # fchmod takes no descriptor that is not open for reading


@functools.cache
def libraries(program: Path) -> tuple[Path, ...]:
    """Return the loader and libraries of this host that a program needs to start; empty for a static one."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    return tuple(Path(path) for path in re.findall(r"(/\S+) \(0x", done.stdout))


def memory_folder(memory: int) -> Path:
    """Return the folder for the file of a machine's `memory` (bytes) without namespaces: in memory, or on a disk.

    Containers have a /dev/shm of 64 MB, mounted noexec.
    """
    runs = SHM.is_dir() and not os.statvfs(SHM).f_flag & os.ST_NOEXEC
    fits = runs and shutil.disk_usage(SHM).total >= memory
    return SHM if fits else Path(tempfile.gettempdir())


def memory_room(memory: int) -> tuple[int, Path | None]:
    """Return the free bytes for a machine's `memory`, and their folder; None: only memory."""
    try:
        kind = confinement()
    except (ConfinementError, BuildError):  # reported when the machine starts
        kind = Confinement.NAMESPACES
    if kind is Confinement.NAMESPACES:
        return 1 << 62, None
    folder = memory_folder(memory)
    return shutil.disk_usage(folder).free, folder
