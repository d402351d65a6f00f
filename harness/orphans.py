# SPDX-License-Identifier: Apache-2.0
"""What a killed run left running at a host reached by ssh: found by the mark in its environment, and ended.

A program there outlives the connection that started it if it has nothing to write.
"""

from __future__ import annotations

import os
import shlex
import socket

import psutil

from harness.place import Place

_NAME = "SOJOURN"
_SHOW = 'pid=${f#/proc/}; pid=${pid%/environ}; echo "$pid" $(tr "\\0" "\\n" <"$f" | sed -n "s/^SOJOURN=//p") '
_SHOW += '$(tr "\\0" " " <"/proc/$pid/cmdline")'


def mark() -> str:
    """Return the shell's assignment that marks what this process starts elsewhere."""
    return f"{_NAME}={shlex.quote(f'{socket.gethostname()}:{os.getpid()}')}"


def end_orphans(place: Place) -> list[str]:
    """End what processes of this host that are no more left at ``place``; return its command lines.

    Raises :class:`harness.place.CommandError`.
    """
    ours = shlex.quote(f"{_NAME}={socket.gethostname()}:")
    found = place.run(["sh", "-c", f"for f in $(grep -ls {ours} /proc/[0-9]*/environ); do {_SHOW}; done"])
    ended = []
    for pid, owner, *command in map(str.split, found.splitlines()):
        if not psutil.pid_exists(int(owner.rpartition(":")[2])):
            place.run(["kill", "-KILL", pid], check=False)
            ended.append(" ".join(command))
    return ended
