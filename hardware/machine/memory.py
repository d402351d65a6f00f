# SPDX-License-Identifier: Apache-2.0
"""Available memory: of the machine, and of the control groups of a container or a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil

_GROUPS = Path("/sys/fs/cgroup")
#: Control group version → its folder, the files with limit and use, and the reclaimable part.
_VERSIONS = {
    "": (_GROUPS, "memory.max", "memory.current", ("active_file", "inactive_file")),
    "memory": (
        _GROUPS / "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    ),
}


def available_bytes() -> int:
    """Return the bytes that can be allocated without swapping or killing a process."""
    return max(0, min(psutil.virtual_memory().available, *_left_in_groups(), 1 << 62))


def _left_in_groups() -> Iterator[int]:
    """Yield what is left in this process's control groups, innermost first (cgroups(7)); nothing without a limit."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in _VERSIONS:
            continue
        top, limit, use, spare = _VERSIONS[controllers]
        group = top / path.strip("/")
        while group.is_relative_to(top):
            try:
                most, taken = (group / limit).read_text().strip(), int((group / use).read_text())
                stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                if most != "max":
                    yield int(most) - taken + sum(int(stat.get(name, 0)) for name in spare)
            except (OSError, ValueError):  # the top has no such files, and a container may not see its parents
                pass
            group = group.parent
