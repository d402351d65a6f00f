# SPDX-License-Identifier: Apache-2.0
"""What is missing on a router that refused a queue, and what to install there. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sojourn.hardware.images import tc_objects

_NO_WORD = re.compile(r'Unknown qdisc "([^"]+)"|What is "([^"]+)"')
_NO_KIND = "Specified qdisc kind is unknown"


def remedy(command: str, said: str) -> str:
    """Return what is missing and what to install if tc printed `said` for `qdisc add …`; empty for any other failure.

    tc does not know a queue that is newer than tc, nor Sojourn's own queues; the kernel may not have the queue either.
    """
    kind = command.partition(" handle ")[2].split()[1:2]
    if not kind:
        return ""
    if word := _NO_WORD.search(said):
        return f'its tc does not know "{word[1] or word[2]}": {words_of(kind)}'
    return f"its kernel does not have {kind[0]}: {modules_of(kind)}" if _NO_KIND in said else ""


def words_of(kinds: Sequence[str]) -> str:
    """Return what to install so that tc knows the words of these queues."""
    ours = [kind for kind in kinds if kind in tc_objects.KINDS]
    wanted = ["install iproute2 7 or newer there"] if len(ours) < len(kinds) else []
    if ours:
        target = "/usr/lib/$(gcc -dumpmachine)/tc/q_{}.so"
        compiled = (f"gcc -shared -fPIC -O2 -o {target.format(kind)} tc_sce.c" for kind in ours)
        wanted.append(f"as root there, in a copy of hardware/kernel: {' && '.join(compiled)}")
    return "; ".join(wanted)


def modules_of(kinds: Sequence[str]) -> str:
    """Return what to install so that the kernel has these queues and filters."""
    return (
        f"as root there: modprobe {' '.join(f'sch_{kind}' for kind in kinds)}; a kernel without them can be built from "
        "hardware/kernel/*.config"
    )
