# SPDX-License-Identifier: Apache-2.0
"""Samples of a router's queues: ``tc -s -j qdisc show`` of both sides every 100 ms into qdisc.jsonl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bottleneck.periodic import PeriodicSampler
from harness.place import Place


class QdiscSampler(PeriodicSampler):
    """Writes ``{"t": unix s, "dev": …, "qdiscs": […]}`` lines, two each ``interval_s`` (s)."""

    def __init__(self, place: Place, output: Path, lan: str = "lan", wan: str = "wan", interval_s: float = 0.1) -> None:
        # tc flushes its output after each command of a batch: one process serves all samples.
        super().__init__(place, ["tc", "-s", "-j", "-batch", "-"], output, interval_s)
        self.devices = (lan, wan)

    def sample(self) -> Iterator[bytes]:
        for dev in self.devices:
            moment, answer = self.ask(f"qdisc show dev {dev}", last=b"]\n")
            yield b'{"t":%.6f,"dev":"%s","qdiscs":%s}\n' % (moment, dev.encode(), answer.strip())
