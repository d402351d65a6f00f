# SPDX-License-Identifier: Apache-2.0
"""Kill what a run left running on an ssh host, by a mark in the environment.

A program there outlives its connection if it writes nothing.
"""

from __future__ import annotations

import os
import shlex
import socket
from pathlib import Path

_NAME = "SOJOURN"


def machine() -> str:
    """Return an identifier shared by processes that see each other's pids: host name, boot, pid namespace.

    Hosts made from one image share a name; containers of one host share a boot.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()}/{boot}/{os.stat('/proc/self/ns/pid').st_ino}"


def mark() -> str:
    """Return the shell assignment that marks what this process starts on other hosts."""
    return f"{_NAME}={shlex.quote(f'{machine()}:{os.getpid()}')}"


def end_marked() -> str:
    """Return the shell line that kills what this process has started on the host where the line runs."""
    # Not `grep -z`: busybox may have none.
    is_ours = f"tr '\\0' '\\n' <\"$f\" | grep -qxF {mark()}"
    kill = 'f=${f%/environ}; kill -KILL "${f#/proc/}"'
    return f"{{ for f in /proc/[0-9]*/environ; do if {is_ours}; then {kill}; fi; done; }} 2>/dev/null"
