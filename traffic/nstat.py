# SPDX-License-Identifier: Apache-2.0
"""A kernel's TCP and IP counters of a network namespace, named as in `nstat`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

FILES = ("/proc/net/snmp", "/proc/net/netstat", "/proc/net/snmp6")
"""The files that hold them."""
#: Settings and states listed among the counters.
_NO_COUNTERS = frozenset(("IpForwarding", "IpDefaultTTL", "TcpRtoAlgorithm", "TcpRtoMin", "TcpRtoMax", "TcpMaxConn"))


def counters(text: str) -> dict[str, int]:
    """Return the counters in the text of FILES that are not 0, e.g. `TcpRetransSegs`, `IpExtInCEPkts`.

    Two lines of snmp and netstat belong together, `Tcp: NAME …` and `Tcp: VALUE …`; snmp6 has a line per counter.
    """
    lines = [line.split() for line in text.splitlines() if line.strip()]
    counted: dict[str, int] = {}
    for names, values in pairwise(lines):
        if names[0] == values[0] and names[0].endswith(":"):
            prefix = names[0].removesuffix(":")
            counted |= {prefix + name: int(value) for name, value in zip(names[1:], values[1:], strict=True)}
    counted |= {line[0]: int(line[1]) for line in lines if len(line) == 2 and not line[0].endswith(":")}
    return {name: value for name, value in counted.items() if value and name not in _NO_COUNTERS}


def counted(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the increase of the counters between two readings, without unchanged ones."""
    return {name: more for name, value in after.items() if (more := value - before.get(name, 0))}
