# SPDX-License-Identifier: Apache-2.0
"""Processors: one for a guest alone, and the assignment for the nodes of a real-time lab."""

from __future__ import annotations

import functools
import os
import socket
import struct
import sys
from contextlib import suppress

import psutil

from sojourn.hardware.machine.place import LOCAL

LATENCY = "/dev/cpu_dma_latency"
#: The router has priority over the probes that measure it, and these over the hosts that fill it.
ROUTER, PROBES, HOSTS = 30, 25, 20
_RECORDERS = 10
#: Leases of one core that are told apart.
_SHARERS = 16


class Lease:
    """One of `cores` (default: those that this process may use) that no other process here has leased.

    If all are taken, the one with the fewest leases is shared: two machines on one core while another has one take
    turns, and the second core's idle time helps neither. The lease is the name of an abstract socket, so it ends with
    the process at the latest.
    """

    def __init__(self, cores: list[int] | None = None) -> None:
        mine = sorted(os.sched_getaffinity(0)) if cores is None else cores
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for sharer in range(_SHARERS):
            for self.core in mine:
                try:
                    self._socket.bind(f"\0sojourn-core-{self.core}" + f"-{sharer}" * (sharer > 0))
                    return
                except OSError:
                    continue
        self.core = mine[os.getpid() % len(mine)]

    def end(self) -> None:
        """Release the processor."""
        self._socket.close()

    def __enter__(self) -> int:
        return self.core

    def __exit__(self, *_: object) -> None:
        self.end()


class Cores:
    """The cores for real-time nodes and for everything else; undoes its changes on exit.

    A packet visits the nodes one after the other. With `one_core` they share the last core and leave the others to the
    browser and the recorder: a wake-up on the same core needs no interrupt to another core, which can wait for the next
    timer tick on a busy virtual machine (measured: 4 ms instead of 0.03 ms). Idle cores are kept from sleeping through
    /dev/cpu_dma_latency, as cyclictest does, if the user may open it. Nothing changes if the user has no real-time
    priority (RLIMIT_RTPRIO), or on a single core.
    """

    def __init__(self, one_core: bool) -> None:
        self._before = os.sched_getaffinity(0)
        self._last = max(self._before)
        self._apart = one_core and _may_be_realtime() and len(self._before) > 1
        self._awake: int | None = None
        self._claim: socket.socket | None = None
        #: Other real-time labs on this machine that compete with this one; empty if there are none.
        self.sharing = ""

    def __enter__(self) -> Cores:
        self._claim_core()
        if self._apart:
            os.sched_setaffinity(0, self._before - {self._last})
        with suppress(OSError):
            self._awake = os.open(LATENCY, os.O_WRONLY)
            os.write(self._awake, (0).to_bytes(4, sys.byteorder))  # µs; in effect while the file is open
        return self

    def __exit__(self, *_: object) -> None:
        os.sched_setaffinity(0, self._before)
        if self._claim:
            self._claim.close()
            self._claim = None
        if self._awake is not None:
            os.close(self._awake)
            self._awake = None

    def _claim_core(self) -> None:
        """Claim the last core that no other real-time lab has, and note the owners of those skipped.

        The claim is the name of an abstract socket, as for a Lease; the kernel reports the listening process.
        """
        others = []
        for core in sorted(self._before, reverse=True):
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                claim.bind(f"\0sojourn-real-time-{core}")
                claim.listen()
            except OSError:
                others += _listener(claim, core)
                claim.close()
                continue
            self._claim, self._last = claim, core
            break
        if others:
            shared = "" if self._claim else "; they share a processor, and the gates judge the effect"
            self.sharing = f"another real-time lab runs on this machine: {', '.join(others)}{shared}"

    def all(self) -> tuple[str, ...]:
        """Return the argv prefix that lets a program use every core; empty if all programs can."""
        return ("taskset", "--cpu-list", ",".join(map(str, sorted(self._before)))) if self._apart else ()

    def on_time(self) -> tuple[str, ...]:
        """Return the argv prefix that gives a recorder priority over browsers, on any core; empty if not permitted."""
        return ("chrt", "--rr", str(_RECORDERS)) if _may_be_realtime() else ()

    def realtime(self, priority: int) -> tuple[str, ...]:
        """Return the argv prefix that gives real-time `priority`; empty if not permitted."""
        if not _may_be_realtime():
            return ()
        core = ("taskset", "--cpu-list", str(self._last)) if self._apart else ()
        return (*core, "chrt", "--rr", str(priority))


def _listener(asking: socket.socket, core: int) -> list[str]:
    """Return the owner of the claim on a core; empty if it is this process."""
    try:
        asking.connect(f"\0sojourn-real-time-{core}")
        credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:  # it is ending
        return [f"on core {core}"]
    pid, user, _ = struct.unpack("3i", credentials)
    if pid == os.getpid():
        return []
    return [f"process {pid} of {psutil.Process(pid).username() if psutil.pid_exists(pid) else f'user {user}'}"]


@functools.cache
def _may_be_realtime() -> bool:
    wanted = os.environ.get("SOJOURN_REALTIME", "1") != "0"
    return wanted and LOCAL.run(["sh", "-c", f"chrt --rr {ROUTER} true 2>&1 || echo no"]).strip() == ""
