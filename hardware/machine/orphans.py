# SPDX-License-Identifier: Apache-2.0
"""Find and kill what a killed run left running on an ssh host, by a mark in the environment.

A program there outlives its connection if it writes nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
from pathlib import Path

import psutil

from sojourn.hardware.machine.place import Place

_NAME = "SOJOURN"
_SHOW = 'pid=${f#/proc/}; pid=${pid%/environ}; echo "$pid" $(tr "\\0" "\\n" <"$f" | sed -n "s/^SOJOURN=//p") '
_SHOW += '$(tr "\\0" " " <"/proc/$pid/cmdline")'


def machine() -> str:
    """Return an identifier shared by processes that see each other's pids: host name, boot, pid namespace.

    Hosts made from one image share a name; containers of one host share a boot.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()}/{boot}/{os.stat('/proc/self/ns/pid').st_ino}"


def mark() -> str:
    """Return the shell assignment that marks what this process starts on other hosts."""
    return f"{_NAME}={shlex.quote(f'{machine()}:{os.getpid()}')}"


def end_orphans(place: Place) -> list[str]:
    """Kill at `place` what ended processes of this `machine` left there; return the command lines.

    Raises `sojourn.hardware.machine.place.CommandError`.
    """
    ours = machine()
    wanted = shlex.quote(f"{_NAME}={ours}:")
    listing = place.run(["sh", "-c", f"for f in $(grep -ls {wanted} /proc/[0-9]*/environ); do {_SHOW}; done"])
    ended = []
    # A process that ends during the listing shows only its pid.
    for pid, owner, command in re.findall(rf"(?m)^(\d+) {re.escape(ours)}:(\d+) ?(.*)$", listing):
        if not psutil.pid_exists(int(owner)):
            place.run(["kill", "-KILL", pid], check=False)
            ended.append(command)
    return ended
