# SPDX-License-Identifier: Apache-2.0
"""Contenders that are programs: a receiver and a sender, run in a simulated cell as they would be on any Linux.

What is measured of them is measured on the wire (`harness.matrix.cell.Cell.per_packet`): nothing is asked of a program
but that its receiver opens one port, and that its sender sends to it until it is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hardware.machine import cache
from hardware.machine.cache import BuildError
from hardware.machine.plugins import beside, offered
from traffic import quic


@dataclass(frozen=True)
class Program:
    """A congestion control that is a program of its own, under the name by which cells know it.

    The command lines may hold `{program}`, the executable's path in the machine; `{address}` and `{port}` of the
    receiver; and the sender's `{from_port}`. Both run until they are killed; the sender is begun when the receiver has
    opened its port, UDP or TCP.
    """

    name: str
    receiver: str
    sender: str
    ensure: Callable[[], Path]
    """Return the executable, for the guest's libc or with none; raises `hardware.machine.cache.BuildError`."""
    lacking: Callable[[], str] = lambda: ""
    """Return what this machine lacks for `ensure`, empty if nothing."""

    def digest(self) -> str:
        """Name what runs: executable and command lines; empty where the executable cannot be had."""
        try:
            executable = self.ensure().read_bytes()
        except (BuildError, OSError):
            return ""
        return cache.digest([("program", executable), ("commands", f"{self.receiver}\n{self.sender}".encode())])

    def commands(self, program: str, address: str, port: int, from_port: int) -> tuple[str, str]:
        """Return the command lines of receiver and sender, for a shell."""
        words = {"program": program, "address": address, "port": port, "from_port": from_port}
        return self.receiver.format(**words), self.sender.format(**words)


def _quic(control: str) -> Program:
    send = f"{{program}} send {{address}} {{port}} {{from_port}} {control}"
    return Program(f"quic-{control}", "{program} receive {port}", send, quic.ensure_quic, quic.lacking)


_OURS = {program.name: program for program in map(_quic, ("cubic", "bbr", "newreno"))}
_THEIRS = {program.name: program for program in offered("sojourn.programs", Program)}
PROGRAMS: Mapping[str, Program] = beside(_OURS, _THEIRS, "sojourn.programs")
FOREIGN: Mapping[str, Program] = {name: program for name, program in PROGRAMS.items() if name not in _OURS}
"""Those of other packages, whose sources are none of ours."""
