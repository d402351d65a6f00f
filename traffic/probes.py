# SPDX-License-Identifier: Apache-2.0
"""The latency probes of every run: two streams through the bottleneck that differ only in their ECN codepoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sojourn.traffic import ports

INTERVAL_MS = 20
"""Interval of each probe: two streams of G.711 packets, together 160 kbit/s per direction (IPv4)."""


@dataclass(frozen=True)
class LatencyProbe:
    """A probe: its `codepoint` in both directions, UDP `port` of its echo, and its names."""

    codepoint: Literal["not-ect", "ect1"]
    port: int
    file: str
    """Its log in a run, without the suffix."""
    prefix: str
    """Prefix of its metrics' names."""
    name: str
    queue: str
    """The dualpi2 queue that it measures (RFC 9332, 2.3)."""

    @property
    def key(self) -> str:
        """The name of its port in lab.json."""
        return self.file.replace("-", "_")

    def called(self, qdisc: str | None) -> str:
        """Return its displayed name: by its queue in dualpi2, by its codepoint elsewhere."""
        return self.queue if qdisc and qdisc.split()[0] == "dualpi2" else self.name


PROBES = (
    LatencyProbe("not-ect", ports.IRTT, "irtt", "", "Not-ECT", "C queue"),
    LatencyProbe("ect1", ports.IRTT_ECT1, "irtt-ect1", "ect1_", "ECT(1)", "L queue"),
)


def probe_of(options: Mapping[str, Any]) -> LatencyProbe:
    """Return the single probe of a run with scores before 2.2, from its options.json; ECT(0) is in C too."""
    return PROBES[1] if options.get("probe_ecn") == PROBES[1].codepoint else PROBES[0]
