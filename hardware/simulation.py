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
from sojourn.hardware.images import own_tc
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.machine.cores import Lease
from sojourn.hardware.machine.descriptors import DescriptorError, ensure
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.files import read_foreign
from sojourn.hardware.machine.memory import available_bytes
from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.scratch import scratch_file
from sojourn.hardware.machine.signals import deferred_signals
from sojourn.hardware.node import node_command

START_NS = 1_000_000_000
"""Simulated time at boot, nanoseconds; fixed, so that a run repeats bit for bit."""
DATE_NS = 1_790_000_000 * 1_000_000_000
"""Simulated time at boot for programs that need a real date, for certificates: 21 September 2026."""
ANY_PROCESSOR = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX2,-SSE4_2"
"""A word for the kernel's command line that sets the environment: it disables one feature of every x86-64 level. ld.so
looks for libraries in a folder per level that the host processor supports; each look-up takes 50 ns of simulated time.
"""
NO_RDRAND = "OPENSSL_ia32cap='~0x4000000000000000'"
"""Keeps BoringSSL (Chromium's) and AWS-LC from mixing Intel's RDRAND, which no seed controls, into their random
numbers: it masks this bit of the processor's features."""
ONE_PROCESSOR, HOSTS_PROCESSOR = "x86-64-v3", "the host's"
"""What cpuid shows to a machine's programs (hardware/kernel/patches/0028-um-nothing-of-the-host-processor.patch)."""
_PROMISED = {
    "abm", "aes", "avx", "avx2", "bmi1", "bmi2", "cpuid_fault", "cx16", "f16c", "fma", "lahf_lm", "movbe", "pclmulqdq",
    "pni", "popcnt", "rdtscp", "sse4_1", "sse4_2", "ssse3", "xsave", "xsavec", "xsaveopt",
}  # fmt: skip
OUTPUTS = ("out", "err", "console")
"""Files in a job's folder: the job's output and errors, and the console of a machine that failed."""
_LOOK_S = 0.25
#: Bytes at the end of a machine's output that are read and kept.
_LAST = 64 << 10
#: A machine is stopped when free space for its job falls below this; other programs write there too.
_FLOOR_BYTES = 32 << 20
#: Open files of a machine: a cell's endpoints have about 70, a browser and its driver about 400.
_OPEN_FILES = 256
WITH_BROWSER = 1024
"""Open files of a machine with browsers."""
#: Characters of a machine's output that an error quotes; of its exit code.
_LONGEST, _LONGEST_CODE = 300, 20
#: Console messages for exhausted memory; for a kernel panic.
_NO_MEMORY = re.compile(r"Out of memory: Killed process \d+ \(([^)]*)\)|out of memory", re.IGNORECASE)
_PANIC = re.compile(r"Kernel panic[^\n]*")
#: Console message if one of its processes was killed from outside.
_STUB_GONE = "failed to wait for stub"


class SimulationError(CodedError):
    """The simulated machine did not finish its job; the message ends with the job's output."""


class Root(Protocol):
    """The root file system of a machine."""

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

    The job works in the folder itself, so its files stay there. Its output is in `out` and `err`; the machine's
    `console` is kept if it fails. Hosts and routers are network namespaces that the job creates. The same seed gives
    the same bytes, wherever the folder is: the machine sees no path of the host. It can reach only what is named here
    (`sojourn.hardware.confine.confinement`), and links, sockets and devices that it wrote are removed before anybody
    reads them.

    It stays on one processor, preferably one that no other machine uses: every system call of the guest switches
    between two host processes, which is many times slower across processors.

    Args:
        timeout: seconds of real time; None: no limit.
        mounts: host folders by name: the job can mount each with busybox as `-t hostfs -o NAME/.`.
        reads: the same, read-only; a name may have slashes.
        watch: called a few times per second; its exceptions stop the machine and are raised.
        untrusted: whether programs in it may attack its kernel: their system calls are slower.
        environment: further variables for the kernel's process.
        confinement: default: the best available here.

    Raises:
        SimulationError: the machine cannot be confined, does not finish in time, leaves links, or the job's exit code
            is not 0.
        BuildError: the launcher that confines it cannot be compiled.
    """
    check_memory(memory)
    check_open_files(_OPEN_FILES)
    # By the working directory: a path on the kernel's command line would differ between runs, and change memory layout
    # and entropy.
    words = node_command(
        name="sim",
        interfaces=(),
        memory=memory,
        forward=True,
        untrusted=untrusted,
        extra=("time-travel=inf-cpu", f"time-travel-start={start_ns}", "sj_job=job/.", ANY_PROCESSOR),
    )
    if kernel.tc:
        own_tc.use_in(folder / "run")
        reads = {**(reads or {}), own_tc.NAME: kernel.tc}
    jail = Jail(
        {"linux": kernel.linux, "root": guest.root, **(reads or {})}, {"job": folder, **(mounts or {})},
        memory_bytes(memory), trace=untrusted, kind=confinement,
    )  # fmt: skip
    (folder / "status").unlink(missing_ok=True)
    # No host environment: its size alone would shift the guest's memory.
    variables = {"PATH": os.defpath, "HOME": "/", "SOJOURN_SEED": str(seed), "TMPDIR": "memory", **(environment or {})}
    machine: subprocess.Popen[bytes] | None = None
    said = scratch_file("-console")
    try:
        with jail, Lease() as core:
            try:
                command = jail.argv(words, variables, core=core, parent=os.getpid())
                with said.open("wb") as console, deferred_signals():
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
            raise SimulationError(f"{folder}: {stopped}: {_last_words(folder, said)}", code="no-answer") from stopped
        if isinstance(stopped, ConfinementError):
            raise SimulationError(str(stopped), code=stopped.code) from stopped
        raise
    finally:
        said.unlink()


def shown_processor(flags: str) -> str:
    """Return the processor that programs of a machine see on a host with these features, as /proc/cpuinfo names them.

    It is the same on all hosts with the features of ONE_PROCESSOR whose cpuid can fault; otherwise it is the host's.
    """
    return HOSTS_PROCESSOR if missing_features(flags) else ONE_PROCESSOR


def missing_features(flags: str) -> list[str]:
    """Return the features of ONE_PROCESSOR that a host with these flags lacks, sorted."""
    return sorted(_PROMISED.difference(flags.split()))


def last_words(file: Path) -> str:
    """Return the end of a file that a machine wrote, with any content; empty if there is none."""
    try:
        return read_foreign(file, _LAST).decode(errors="replace")
    except OSError:
        return ""


def memory_bytes(memory: str) -> int:
    """Return the bytes of "256M" or "4G"."""
    return int(memory[:-1]) << {"M": 20, "G": 30}[memory[-1]]


def free_bytes(need: int) -> int:
    """Return the bytes of memory free for machines of `need` bytes each, in memory and on the disk that holds it."""
    return min(available_bytes(), memory_room(need)[0])


def fitting(memory: str) -> int:
    """Return how many machines of `memory` ("4G") fit, in memory and on the disk that holds it."""
    need = memory_bytes(memory)
    return free_bytes(need) // need


def check_memory(memory: str) -> None:
    """Raise SimulationError if there is not enough room for a machine of `memory` ("4G")."""
    need = memory_bytes(memory)
    have, (room, folder) = available_bytes(), memory_room(need)
    if need > min(have, room):
        where = "of memory" if have <= room else f"in {folder}"
        raise SimulationError(
            f"a simulated machine needs {need >> 20} MB, but only {min(have, room) >> 20} MB {where} are free; "
            "stop other programs first",
            code="no-memory",
        )


def check_open_files(count: int) -> None:
    """Raise the limit of open files as far as possible. Raises SimulationError if a machine needs more."""
    try:
        ensure(count, "a simulated machine")
    except DescriptorError as few:
        raise SimulationError(str(few)) from few


def _look(folder: Path, watch: Callable[[], None]) -> None:
    """Watch a running machine. Raises SimulationError if its job fills the disk, and what `watch` raises."""
    if (free := shutil.disk_usage(folder).free) < _FLOOR_BYTES:
        raise SimulationError(
            f"{folder}: disk full: only {free >> 20} MiB left, a machine needs {_FLOOR_BYTES >> 20}; free some space",
            code="disk-full",
        )
    watch()


def _wait(machine: subprocess.Popen[bytes], timeout: float | None, watch: Callable[[], None]) -> None:
    deadline = None if timeout is None else time.monotonic() + timeout
    ended = os.pidfd_open(machine.pid)  # Popen.wait polls only every 50 ms, a tenth of a short cell
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
    """Raise the error of a machine that has `ended` with an exit code, or with a signal as a negative number."""
    console, code = last_words(said), last_words(folder / "status").strip()
    if code == "0":
        return
    code = printable(code[:_LONGEST_CODE])
    if killed := _NO_MEMORY.search(console):
        whom = f": it killed {printable(killed[1])}" if killed[1] else ""
        raise SimulationError(
            f"{folder}: the machine ran out of memory{whom}; its console: {_end(console)}", code="no-memory"
        )
    if ended == -signal.SIGKILL or _STUB_GONE in console:
        why = "the machine was killed from outside, as the kernel does if this host or a container runs out of memory"
        raise SimulationError(f"{folder}: {why}", code="killed")
    if panic := _PANIC.search(console):
        raise SimulationError(
            f"{folder}: {printable(panic[0][:_LONGEST])}; its console: {_end(console)}", code="not-ended"
        )
    if not code:
        raise SimulationError(f"{folder}: the machine ended early: {_end(console) or 'no output'}", code="not-ended")
    raise SimulationError(f"{folder}: exit code {code}: {_end(last_words(folder / 'err'))}")


def _last_words(folder: Path, said: Path) -> str:
    parts = (_end(last_words(folder / "err")), _end(last_words(said)))
    return "; ".join(part for part in parts if part) or "no output"


def _end(text: str) -> str:
    return "".join(c if c in "\n\t" else printable(c) for c in text.strip()[-_LONGEST:])


def _kill(machine: subprocess.Popen[bytes]) -> None:
    """Kill the machine and the processes of its user space; an ended machine has none."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(machine.pid, signal.SIGKILL)
