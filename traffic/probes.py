# SPDX-License-Identifier: Apache-2.0
"""The latency probes of every run: two streams through the bottleneck that differ in their ECN codepoint alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sojourn.traffic import ports

INTERVAL_MS = 20
"""How often each probe sends: two streams of G.711 packets, 160 kbit/s together each way (at IPv4)."""


@dataclass(frozen=True)
class LatencyProbe:
    """A probe: `codepoint` of what it sends both ways, UDP `port` of its echo, and what it is called where."""

    codepoint: Literal["not-ect", "ect1"]
    port: int
    file: str
    """Its log in a run, without the suffix."""
    prefix: str
    """What the names of its metrics begin with."""
    name: str
    queue: str
    """Which of dualpi2's queues it sees (RFC 9332, 2.3)."""

    @property
    def key(self) -> str:
        """The name of its port in lab.json."""
        return self.file.replace("-", "_")

    def called(self, qdisc: str | None) -> str:
        """Return how it is named in what is shown: by its queue in dualpi2, by its codepoint elsewhere."""
        return self.queue if qdisc and qdisc.split()[0] == "dualpi2" else self.name


PROBES = (
    LatencyProbe("not-ect", ports.IRTT, "irtt", "", "Not-ECT", "C queue"),
    LatencyProbe("ect1", ports.IRTT_ECT1, "irtt-ect1", "ect1_", "ECT(1)", "L queue"),
)


def probe_of(options: Mapping[str, Any]) -> LatencyProbe:
    """Return which probe the only one of a run of scores before 2.2 was, by its options.json; ECT(0) is in C too."""
    return PROBES[1] if options.get("probe_ecn") == PROBES[1].codepoint else PROBES[0]
