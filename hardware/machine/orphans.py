# SPDX-License-Identifier: Apache-2.0
"""What a killed run left running at a host reached by ssh: found by the mark in its environment, and ended.

A program there outlives the connection that started it if it has nothing to write.
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
    """Return what only processes share whose pids we can ask for: host name, boot, pid namespace.

    Hosts made of one image have one name, containers of one host one boot.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()}/{boot}/{os.stat('/proc/self/ns/pid').st_ino}"


def mark() -> str:
    """Return the shell's assignment that marks what this process starts elsewhere."""
    return f"{_NAME}={shlex.quote(f'{machine()}:{os.getpid()}')}"


def end_orphans(place: Place) -> list[str]:
    """End what processes of this `machine` that are no more left at `place`; return its command lines.

    Raises `sojourn.hardware.machine.place.CommandError`.
    """
    ours = machine()
    wanted = shlex.quote(f"{_NAME}={ours}:")
    listing = place.run(["sh", "-c", f"for f in $(grep -ls {wanted} /proc/[0-9]*/environ); do {_SHOW}; done"])
    ended = []
    # One that ends as it is looked at shows its pid alone.
    for pid, owner, command in re.findall(rf"(?m)^(\d+) {re.escape(ours)}:(\d+) ?(.*)$", listing):
        if not psutil.pid_exists(int(owner)):
            place.run(["kill", "-KILL", pid], check=False)
            ended.append(command)
    return ended
