# SPDX-License-Identifier: Apache-2.0
"""Contenders that are programs: a receiver and a sender, run in a simulated cell as on any Linux.

Sojourn measures them on the wire (`sojourn.bottleneck.cell.Cell.per_packet`). A program needs only a receiver
that opens one port, and a sender that sends to it until it is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.plugins import merge_with_builtin, offered
from sojourn.traffic import iperf2, rust


@dataclass(frozen=True)
class Program:
    """A congestion control that is a separate program; `name` is its name in cells.

    The command lines may use `{program}`, the executable's path in the machine; `{address}` and `{port}` of the
    receiver; and the sender's `{from_port}`. Both run until they are killed; the sender starts once the receiver has
    opened its port, UDP or TCP.
    """

    name: str
    receiver: str
    sender: str
    ensure: Callable[[], Path]
    """Return the executable, for the guest's libc or static; raises `sojourn.hardware.machine.cache.BuildError`."""
    missing_tools: Callable[[], str] = lambda: ""
    """Return what is missing on this machine for `ensure`, empty if nothing."""

    def digest(self) -> str:
        """Return a digest of executable and command lines; empty if the executable is not available."""
        try:
            executable = self.ensure().read_bytes()
        except (BuildError, OSError):
            return ""
        return cache.digest([("program", executable), ("commands", f"{self.receiver}\n{self.sender}".encode())])

    def commands(self, program: str, address: str, port: int, from_port: int) -> tuple[str, str]:
        """Return the command lines of receiver and sender, for a shell."""
        words = {"program": program, "address": address, "port": port, "from_port": from_port}
        return self.receiver.format(**words), self.sender.format(**words)


def _rust_program(name: str, words: tuple[str, str, str]) -> Program:
    source, sending, receiving = words
    receiver = f"{{program}} receive {{address}} {{port}} {receiving}".rstrip()
    sender = f"{{program}} send {{address}} {{port}} {{from_port}} {sending}"
    return Program(name, receiver, sender, lambda: rust.ensure(source), lambda: rust.missing_tools(source))


# The maximum that a WebRTC call in Chromium sends at 640x480, the default camera size.
_WEBRTC_KBPS = 1700
# Above every path that media is measured on: RFC 8298's video grows by 0.2 Mbit/s per second.
_SCREAM_KBPS = 20_000
# The most of Ericsson's test tool for SCReAM v2.
_SCREAM2_KBPS = 200_000
# Of a 720p call (`sojourn.apps.call.FULL`).
_CALL_KBPS = 2500
_RUST: Mapping[str, tuple[str, str, str]] = {
    "quic-cubic": ("quic", "cubic", ""),
    "quic-bbr": ("quic", "bbr", ""),
    "quic-newreno": ("quic", "newreno", ""),
    "quic-bbr2": ("quic-quiche", "bbr2_gcongestion", ""),
    "quic-bbr3": ("quic-noq", "bbr3", ""),
    "quic-ledbatpp": ("quic-noq", "ledbatpp", ""),
    "quic-prague": ("quic-noq", "prague", "prague"),
    "webrtc": ("webrtc", str(_WEBRTC_KBPS), ""),
    "scream": ("scream", str(_SCREAM_KBPS), ""),
    "scream2": ("scream2", str(_SCREAM2_KBPS), ""),
    "scream2-call": ("scream2", str(_CALL_KBPS), ""),
}
"""Contender: program of `sojourn.traffic.rust`, further words of its sender and of its receiver."""
_UDP_PRAGUE = Program(
    "udp-prague",
    "{program} -s -u -p {port}",
    iperf2.sender("{program}", "{address}", "{port}", "{from_port}"),
    iperf2.ensure,
    iperf2.missing_tools,
)
_OURS = {program.name: program for program in (*starmap(_rust_program, _RUST.items()), _UDP_PRAGUE)}
_THEIRS = {program.name: program for program in offered("sojourn.programs", Program)}
PROGRAMS: Mapping[str, Program] = merge_with_builtin(_OURS, _THEIRS, "sojourn.programs")
FOREIGN: Mapping[str, Program] = {name: program for name, program in PROGRAMS.items() if name not in _OURS}
"""Programs of other packages, whose sources are not Sojourn's."""


def rust_package(name: str) -> str | None:
    """Return the package of `sojourn.traffic.rust` that has a contender's program; None for any other contender."""
    return rust.package_of(_RUST[name][0]) if name in _RUST else None
