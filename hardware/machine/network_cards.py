# SPDX-License-Identifier: Apache-2.0
"""The network cards of a machine: their negotiated speed, and the packets that they or its processors lost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sojourn.hardware.machine.place import Place

#: Not rx_dropped: it also counts packets of protocols that nobody there speaks, such as a switch's LLDP.
_LOST = ("rx_errors", "rx_missed_errors", "rx_fifo_errors", "tx_errors", "tx_dropped")
_READ = 'cd /sys/class/net && grep -H "" "$@" && cat /proc/net/softnet_stat && grep "^cpu[0-9]" /proc/stat'
#: A kernel's way to say that it does not know.
_NO_SPEED_MBPS = 1_000_000


@dataclass(frozen=True)
class CardCounters:
    """Counters since the boot: packets lost by place and cause, and ticks by processor (busy, all)."""

    lost: Mapping[str, int]
    ticks: Mapping[str, tuple[int, int]]

    def lost_since(self, before: CardCounters) -> dict[str, int]:
        """Return the packets lost since `before`, without causes that lost none."""
        grown = {name: count - before.lost.get(name, 0) for name, count in self.lost.items()}
        return {name: count for name, count in grown.items() if count}

    def busiest_since(self, before: CardCounters) -> float:
        """Return the share of time since `before` in which the busiest processor was busy, 0 to 1."""
        shares = [0.0]
        for name, (busy, ticks) in self.ticks.items():
            was_busy, then = before.ticks.get(name, (0, 0))
            shares.append((busy - was_busy) / max(ticks - then, 1))
        return max(shares)


def speed_bps(place: Place, device: str) -> int | None:
    """Return the speed that a card has negotiated, bit/s; None if it is unknown, or without a link."""
    text = place.run(["cat", f"/sys/class/net/{device}/speed"], check=False).strip()
    return int(text) * 1_000_000 if text.isdecimal() and 0 < int(text) < _NO_SPEED_MBPS else None


def read_counters(place: Place, *devices: str) -> CardCounters:
    """Read the counters of cards and processors. Raises `sojourn.hardware.machine.place.CommandError`."""
    files = [f"{device}/statistics/{cause}" for device in devices for cause in _LOST]
    text = place.run(["sh", "-c", _READ, "sh", *files])
    lost = {f"{device} {cause}": int(n) for device, cause, n in re.findall(r"(?m)^(.+)/statistics/(\w+):(\d+)$", text)}
    # Per processor: packets, packets dropped because its backlog was full, …, in hexadecimal.
    lost["backlog"] = sum(int(dropped, 16) for dropped in re.findall(r"(?m)^[0-9a-f]{8} ([0-9a-f]{8}) ", text))
    ticks = {}
    for cpu, counts in re.findall(r"(?m)^(cpu\d+) (.+)$", text):
        spent = [int(count) for count in counts.split()[:8]]
        ticks[cpu] = sum(spent) - sum(spent[3:5]), sum(spent)  # less idle and iowait
    return CardCounters(lost, ticks)
