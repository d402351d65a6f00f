# SPDX-License-Identifier: Apache-2.0
"""Whether a machine's kernel warned of itself: then nothing that was measured on it counts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from sojourn.hardware.machine.place import Place

LOG = "kernel.log"
#: An oops, a warning, a lockup: bits 7, 9 and 14 of Linux's Documentation/admin-guide/tainted-kernels.rst.
_TAINTS = 1 << 7 | 1 << 9 | 1 << 14
_WARNS = "WARNING:|BUG:|Oops|lockup"
CHECK = f"""\
[ $(($(cat /proc/sys/kernel/tainted) & {_TAINTS})) = 0 ] || {{
    busybox dmesg >{LOG}
    echo "the kernel warned of itself ({LOG}): $(busybox grep -m1 -E '{_WARNS}' {LOG})" >&2
    exit 1
}}
"""
"""Shell commands for the end of a machine's job; they fail if its kernel warned of itself, and write its log."""


def require_sound_kernel(folder: Path) -> None:
    """Raise RuntimeError with the first warning if this machine's kernel warned of itself; `folder` gets its log."""
    done = subprocess.run(["sh", "-c", CHECK], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())


def warnings(place: Place) -> tuple[int, ...]:
    """Return what changes when a place's kernel warns of itself: its taints, and from Linux 6.2 on its counts of
    warnings and oopses. Raises CommandError.
    """
    taints, *counts = place.run(
        ["sh", "-c", "cat /proc/sys/kernel/tainted; cat /sys/kernel/warn_count /sys/kernel/oops_count 2>/dev/null || :"]
    ).split()
    return int(taints) & _TAINTS, *(int(count) for count in counts)


def last_warning(place: Place) -> str:
    """Return the last warning in the log of a place's kernel; its whole log goes to the run's log."""
    lines = place.run(["dmesg"], check=False).splitlines()
    return next((line.strip() for line in reversed(lines) if re.search(_WARNS, line)), "its log has no warning")
