# SPDX-License-Identifier: Apache-2.0
"""Whether a machine's kernel warned of itself: then nothing that was measured on it counts."""

from __future__ import annotations

import subprocess
from pathlib import Path

LOG = "kernel.log"
#: An oops, a warning, a lockup: bits 7, 9 and 14 of Linux's Documentation/admin-guide/tainted-kernels.rst.
_TAINTS = 1 << 7 | 1 << 9 | 1 << 14
CHECK = f"""\
[ $(($(cat /proc/sys/kernel/tainted) & {_TAINTS})) = 0 ] || {{
    busybox dmesg >{LOG}
    echo "the kernel warned of itself ({LOG}): $(busybox grep -m1 -E 'WARNING|BUG|Oops|lockup' {LOG})" >&2
    exit 1
}}
"""
"""Shell commands for the end of a machine's job; they fail if its kernel warned of itself, and write its log."""


def require_sound_kernel(folder: Path) -> None:
    """Raise RuntimeError with the first warning if this machine's kernel warned of itself; `folder` gets its log."""
    done = subprocess.run(["sh", "-c", CHECK], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
