# SPDX-License-Identifier: Apache-2.0
"""Samples of a router's queues: `tc -s -j qdisc show` of both sides every 100 ms into qdisc.jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sojourn.bottleneck.readback import json_values
from sojourn.hardware.machine.periodic import PeriodicSampler
from sojourn.hardware.machine.place import Place


class QdiscSampler(PeriodicSampler):
    """Writes `{"t": unix s, "dev": …, "qdiscs": […]}` lines, two per `interval_s` (s).

    The first device's line also has the `"classes"` of a single-queue fq_codel: only they show its delay.
    """

    def __init__(self, place: Place, output: Path, lan: str = "lan", wan: str = "wan", interval_s: float = 0.1) -> None:
        # tc flushes its output after each command of a batch: one process serves all samples.
        super().__init__(place, ["tc", "-s", "-j", "-batch", "-"], output, interval_s)
        self.devices = (lan, wan)

    def sample(self) -> Iterator[bytes]:
        # One query for all devices: every query costs a virtual router processor time, which probes would see.
        moment, answer = self.ask("qdisc show", last=b"]\n")
        (qdiscs,) = json_values(answer.decode())
        for dev in self.devices:
            here = [q for q in qdiscs if q.get("dev") == dev]
            line = {"t": round(moment, 6), "dev": dev, "qdiscs": here}
            if dev == self.devices[0] and any(map(_one_queue, here)):
                _, answer = self.ask(f"class show dev {dev}", last=b"]\n")
                (classes,) = json_values(answer.decode())
                line["classes"] = [shown for shown in classes if shown.get("class") == "fq_codel"]
            yield json.dumps(line).encode() + b"\n"


def _one_queue(qdisc: dict[str, Any]) -> bool:
    return qdisc.get("kind") == "fq_codel" and qdisc.get("options", {}).get("flows") == 1
