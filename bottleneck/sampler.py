# SPDX-License-Identifier: Apache-2.0
"""Samples of a router's queues: ``tc -s -j qdisc show`` of both sides every 100 ms into qdisc.jsonl."""

from __future__ import annotations

import json
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
        # One question for all devices: each one costs a virtual router processor time that probes would see.
        moment, answer = self.ask("qdisc show", last=b"]\n")
        qdiscs = json.loads(answer)
        for dev in self.devices:
            line = {"t": round(moment, 6), "dev": dev, "qdiscs": [q for q in qdiscs if q.get("dev") == dev]}
            yield json.dumps(line).encode() + b"\n"
