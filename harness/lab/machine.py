# SPDX-License-Identifier: Apache-2.0
"""A simulated machine with browsers, seen from outside: what it is made of, what it is given, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sojourn.hardware import simulation
from sojourn.hardware.images.desktop import Desktop
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.machine import cache, programs
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.messages import printable
from sojourn.hardware.simulation import SimulationError
from sojourn.harness.lab.guest_job import CACHE, ERROR, EVIDENCE, PACKAGES
from sojourn.traffic import user_program
from sojourn.traffic.user_program import UserProgram

SYSTEM_CALLS, SHOWN_PROCESSOR = "system calls", "guest processor"
"""In a manifest's versions: the kernel's method for system calls, seccomp or ptrace; what the guest's cpuid shows."""
#: The memory that a machine with browsers may use.
MEMORY = "4G"
#: Characters of what the inside says stopped it.
_LONGEST_ERROR = 2000
#: Cache folders that machines see: films, cameras, voices, pages, players, certificates, servers and senders.
_LENT = "camera", "clip", "livekit", "livekit-client", "own", "pages", "rust", "speech", "tls", "voice", "web"
#: busybox is not setuid: a setuid mount of a root whose owner has no number here would be nobody's.
#: A recorder's buffers are given back and taken again for each frame where malloc has its way.
_PREPARED = f"""#!/bin/sh
set -e
busybox mount -t hostfs -o evidence/. none {EVIDENCE}
busybox mount -t hostfs -o ro,cache/. none {CACHE}
busybox mount -t hostfs -o ro,sources/. none {PACKAGES}
echo 1 >/proc/sys/vm/overcommit_memory
export SOJOURN_CACHE={CACHE} XDG_CACHE_HOME=/tmp/cache LANG=C.UTF-8
export PYTHONPATH={PACKAGES} PYTHONDONTWRITEBYTECODE=1
export {simulation.NO_RDRAND}
export MALLOC_MMAP_THRESHOLD_=1000000000 MALLOC_TRIM_THRESHOLD_=2000000000
cd /tmp
"""


@dataclass(frozen=True)
class Machine:
    """The parts of a simulated machine."""

    kernel: Kernel
    desktop: Desktop
    memory: str = MEMORY
    untrusted: bool = False
    """Whether third-party pages, scripts or films run in it (see `sojourn.hardware.node.node_command`)."""

    @property
    def bytes(self) -> int:
        """The memory that it may use."""
        return simulation.memory_bytes(self.memory)

    @property
    def versions(self) -> dict[str, str]:
        """Versions for the manifest; equal versions give the same bytes."""
        return {
            "kernel source": self.kernel.source,
            "kernel build": self.kernel.digest,
            "guest": self.desktop.digest,
            "sources": self.desktop.sources_digest,
            SYSTEM_CALLS: "ptrace" if self.untrusted else "seccomp",
            SHOWN_PROCESSOR: simulation.shown_processor(programs.processor()[programs.FLAGS]),
            **{f"guest {name}": text for name, text in self.desktop.versions.items()},
        }

    @property
    def digest(self) -> str:
        """Return a digest of what determines a run, except its film: kernel, guest and this project's sources."""
        parts = (self.kernel.digest, self.kernel.source, self.desktop.digest, self.desktop.sources_digest)
        return cache.digest((str(n), text.encode()) for n, text in enumerate(parts))


class SimulatedError(CodedError):
    """The experiment ended early; one line that says why."""


class _MemorySlots:
    """The number of concurrent machines of this process: as many as free memory allowed when the first began."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.taken = self.most = 0


_slots = _MemorySlots()


@contextmanager
def memory_slot(machine: Machine) -> Iterator[None]:
    """Wait until other machines of this process leave enough memory for this one."""
    with _slots.changed:
        _slots.changed.wait_for(lambda: _slots.taken < max(1, _slots.most))
        if not _slots.taken:
            _slots.most = simulation.fitting(machine.memory)
        _slots.taken += 1
    try:
        yield
    finally:
        with _slots.changed:
            _slots.taken -= 1
            _slots.changed.notify()


def start(
    machine: Machine,
    job: Path,
    command: str,
    *,
    evidence: Path,
    seed: int = 1,
    watch: Callable[[], None] = lambda: None,
    timeout: float | None = None,
    programs: Iterable[UserProgram] = (),
) -> None:
    """Run a shell command in a machine to completion, for at most `timeout` s of real time; it sees `programs`.

    Raises SimulatedError with the machine's own error, or how the machine ended, and what `watch` raises.
    """
    (job / "run").write_text(_PREPARED + command + "\n")
    (job / "run").chmod(0o755)
    try:
        simulation.run(
            machine.kernel, machine.desktop, job, seed=seed, memory=machine.memory, watch=watch,
            start_ns=simulation.DATE_NS, timeout=timeout, untrusted=machine.untrusted,
            mounts={"evidence": evidence}, reads={"sources": machine.desktop.sources, **_lent(programs)},
        )  # fmt: skip
    except SimulationError as failed:
        said = printable(simulation.last_words(job / ERROR)[-_LONGEST_ERROR:])
        raise SimulatedError(said or str(failed).replace(f"{job}: ", "")) from failed


def _lent(programs: Iterable[UserProgram]) -> dict[str, Path]:
    """Return the parts of the cache that a machine sees, and these of the user's programs."""
    own = {f"cache/{user_program.CACHE}/{program.digest}": program.folder for program in programs}
    return {f"cache/{name}": path for name in _LENT if (path := cache.root() / name).is_dir()} | own
