# SPDX-License-Identifier: Apache-2.0
"""A machine in simulated time: its clock jumps to the next timer, whatever the load of the host."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from sojourn.hardware.confine.confinement import Confinement, ConfinementError, Jail, memory_room
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.machine.cores import Lease
from sojourn.hardware.machine.descriptors import DescriptorError, ensure
from sojourn.hardware.machine.files import read_foreign
from sojourn.hardware.machine.memory import available_bytes
from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.scratch import scratch_file
from sojourn.hardware.machine.signals import held_back
from sojourn.hardware.node import node_command

START_NS = 1_000_000_000
"""Simulated time at boot, nanoseconds; fixed, so that a run repeats bit for bit."""
DATE_NS = 1_790_000_000 * 1_000_000_000
"""The same for a machine whose programs look at the date, as certificates make them: 21 September 2026."""
ANY_PROCESSOR = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX2,-SSE4_2"
"""A word for the kernel's command line, which makes it the environment: a feature of each x86-64 level is off. ld.so
looks for libraries in a folder of each level that the host processor has; each look takes 50 ns of simulated time.
"""
NO_RDRAND = "OPENSSL_ia32cap='~0x4000000000000000'"
"""What keeps BoringSSL (Chromium's) and AWS-LC from stirring Intel's RDRAND, which no seed reaches, into all that they
draw: this bit of what the processor tells of itself is masked."""
SAID = ("out", "err", "console")
"""Files in a job's folder: what the job said, and what the machine said that did not end well."""
_LOOK_S = 0.25
#: Bytes at the end of what a machine says that are read, and kept.
_LAST = 64 << 10
#: Below this much free space where a machine's job writes, it ends; others write there too.
_FLOOR_BYTES = 32 << 20
#: Its kernel holds what is open in it: a cell's endpoints have some 70, a browser and what drives it some 400.
_OPEN_FILES = 256
WITH_BROWSER = 1024
"""Open files of a machine with browsers."""
#: Characters of what a machine said that an error quotes; of its exit code.
_LONGEST, _LONGEST_CODE = 300, 20
#: What the console says of memory that is used up; of a kernel that gave up.
_NO_MEMORY = re.compile(r"Out of memory: Killed process \d+ \(([^)]*)\)|out of memory", re.IGNORECASE)
_PANIC = re.compile(r"Kernel panic[^\n]*")
#: What it says where a process of it was killed from outside.
_STUB_GONE = "failed to wait for stub"


class SimulationError(RuntimeError):
    """The simulated machine did not finish its job; the message ends with what the job said."""


class Root(Protocol):
    """What a machine starts from."""

    @property
    def root(self) -> Path: ...


def run(
    kernel: Kernel,
    guest: Root,
    folder: Path,
    *,
    seed: int = 1,
    memory: str = "256M",
    start_ns: int = START_NS,
    timeout: float | None = 300.0,
    mounts: Mapping[str, Path] | None = None,
    reads: Mapping[str, Path] | None = None,
    watch: Callable[[], None] = lambda: None,
    untrusted: bool = False,
    environment: Mapping[str, str] | None = None,
    confinement: Confinement | None = None,
) -> None:
    """Run the executable `folder/run` inside a machine whose time is simulated.

    The job works in the folder itself, so what it writes there stays; its output is `out` and `err`, and the machine's
    own `console` is there too when it does not end well. Hosts and
    routers are network namespaces that it makes. The same seed gives the same bytes, wherever all this lies: the
    machine sees no path of the host. It reaches nothing there but what is named here
    (`sojourn.hardware.confine.confinement`), and of what it could write, links, sockets and devices are removed before
    anybody reads it.

    It stays on one processor, since every system call of the guest hands over between two processes of the host, which
    is many times slower across processors: one that no other machine has, if there is one.

    Args:
        timeout: seconds of real time; None: no limit.
        mounts: folders of the host by a name: the job may mount each by busybox as `-t hostfs -o NAME/.`.
        reads: the same for what it cannot change; a name may have slashes.
        watch: called a few times a second; what it raises ends the machine and is raised.
        untrusted: whether programs may run in it that attack its kernel: their system calls take longer.
        environment: more variables for the kernel's process.
        confinement: default: the best that can be had here.

    Raises:
        SimulationError: the machine cannot be confined, does not finish in time, leaves links, or the job's exit code
            is not 0.
        BuildError: what confines it cannot be compiled.
    """
    check_memory(memory)
    check_open_files(_OPEN_FILES)
    # By the working directory: a path on the kernel's command line would differ between runs, and with it the memory's
    # layout and the entropy.
    words = node_command(
        name="sim",
        interfaces=(),
        memory=memory,
        forward=True,
        untrusted=untrusted,
        extra=("time-travel=inf-cpu", f"time-travel-start={start_ns}", "sj_job=job/.", ANY_PROCESSOR),
    )
    jail = Jail(
        {"linux": kernel.linux, "root": guest.root, **(reads or {})}, {"job": folder, **(mounts or {})},
        memory_bytes(memory), trace=untrusted, kind=confinement,
    )  # fmt: skip
    (folder / "status").unlink(missing_ok=True)
    # Nothing of the host's environment: its size alone would move the guest's memory.
    variables = {"PATH": os.defpath, "HOME": "/", "SOJOURN_SEED": str(seed), "TMPDIR": "memory", **(environment or {})}
    machine: subprocess.Popen[bytes] | None = None
    said = scratch_file("-console")
    try:
        with jail, Lease() as core:
            try:
                command = jail.argv(words, variables, core=core, parent=os.getpid())
                with said.open("wb") as console, held_back():
                    machine = subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT,
                        start_new_session=True,  # its helper processes end with it
                    )  # fmt: skip
                _wait(machine, timeout, partial(_look, folder, watch))
            finally:
                if machine:
                    _kill(machine)
                    machine.wait()
        _judge(folder, said, machine.returncode)
    except BaseException as stopped:
        with contextlib.suppress(OSError):
            (folder / "console").write_bytes(read_foreign(said, _LAST))
        if isinstance(stopped, TimeoutError):
            raise SimulationError(f"{folder}: {stopped}: {_last_words(folder, said)}") from stopped
        if isinstance(stopped, ConfinementError):
            raise SimulationError(str(stopped)) from stopped
        raise
    finally:
        said.unlink()


def last_words(file: Path) -> str:
    """Return the end of what a machine wrote to a file, which may be anything; empty where it wrote none."""
    try:
        return read_foreign(file, _LAST).decode(errors="replace")
    except OSError:
        return ""


def memory_bytes(memory: str) -> int:
    """Bytes of "256M" or "4G"."""
    return int(memory[:-1]) << {"M": 20, "G": 30}[memory[-1]]


def free_bytes(need: int) -> int:
    """Return the bytes of memory that machines of `need` bytes would find, where their memory lies too."""
    return min(available_bytes(), memory_room(need)[0])


def fitting(memory: str) -> int:
    """Return how many machines of `memory` ("4G") would find what they may come to use."""
    need = memory_bytes(memory)
    return free_bytes(need) // need


def check_memory(memory: str) -> None:
    """Raise SimulationError where a machine of `memory` ("4G") would not find the memory that it may come to use."""
    need = memory_bytes(memory)
    have, (room, folder) = available_bytes(), memory_room(need)
    if need > min(have, room):
        where = "of memory" if have <= room else f"in {folder}"
        raise SimulationError(
            f"a simulated machine of {need >> 20} MB: {min(have, room) >> 20} MB {where} are free; end something first"
        )


def check_open_files(count: int) -> None:
    """Raise the limit of open files as far as may be; raises SimulationError where a machine needs more."""
    try:
        ensure(count, "a simulated machine")
    except DescriptorError as few:
        raise SimulationError(str(few)) from few


def _look(folder: Path, watch: Callable[[], None]) -> None:
    """Look after a machine that runs. Raises SimulationError where its job fills the disk, and what `watch` raises."""
    if (free := shutil.disk_usage(folder).free) < _FLOOR_BYTES:
        raise SimulationError(
            f"{folder}: disk full: {free >> 20} MiB left, a machine ends below {_FLOOR_BYTES >> 20}; free some space"
        )
    watch()


def _wait(machine: subprocess.Popen[bytes], timeout: float | None, watch: Callable[[], None]) -> None:
    deadline = None if timeout is None else time.monotonic() + timeout
    ended = os.pidfd_open(machine.pid)  # Popen.wait looks only every 50 ms, which is a tenth of a short cell
    ready = select.poll()
    ready.register(ended, select.POLLIN)
    try:
        while not ready.poll(_left_ms(deadline)):
            watch()
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"not finished within {timeout:g} s")
    finally:
        os.close(ended)
    machine.wait()


def _left_ms(deadline: float | None) -> float:
    left = _LOOK_S if deadline is None else min(_LOOK_S, max(deadline - time.monotonic(), 0))
    return left * 1000


def _judge(folder: Path, said: Path, ended: int) -> None:
    """Raise what a machine leaves to be raised that has `ended` with an exit code, or a signal below nothing."""
    console, code = last_words(said), last_words(folder / "status").strip()
    if code == "0":
        return
    code = printable(code[:_LONGEST_CODE])
    if killed := _NO_MEMORY.search(console):
        whom = f": it ended {printable(killed[1])}" if killed[1] else ""
        raise SimulationError(f"{folder}: the machine's memory was used up{whom}; its console: {_end(console)}")
    if ended == -signal.SIGKILL or _STUB_GONE in console:
        why = "somebody killed the machine; the kernel does so where memory is used up, this host's or a container's"
        raise SimulationError(f"{folder}: {why}")
    if panic := _PANIC.search(console):
        raise SimulationError(f"{folder}: {printable(panic[0][:_LONGEST])}; its console: {_end(console)}")
    if not code:
        raise SimulationError(f"{folder}: the machine ended early: {_end(console) or 'it said nothing'}")
    raise SimulationError(f"{folder}: exit code {code}: {_end(last_words(folder / 'err'))}")


def _last_words(folder: Path, said: Path) -> str:
    parts = (_end(last_words(folder / "err")), _end(last_words(said)))
    return "; ".join(part for part in parts if part) or "it said nothing"


def _end(text: str) -> str:
    return "".join(c if c in "\n\t" else printable(c) for c in text.strip()[-_LONGEST:])


def _kill(machine: subprocess.Popen[bytes]) -> None:
    """End the machine and the processes that run its user space; those of an ended machine are gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(machine.pid, signal.SIGKILL)
