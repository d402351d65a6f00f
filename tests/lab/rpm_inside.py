# SPDX-License-Identifier: Apache-2.0
"""Runs in a simulated machine: foreign probes and irtt through a bottleneck, alone, with CUBIC, with a whole test."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.qdiscs import parse_qdisc
from sojourn.bottleneck.spec import Bottleneck, Direction
from sojourn.hardware.machine.files import LOGS
from sojourn.harness.lab.contract import Lab
from sojourn.harness.lab.guest_job import EVIDENCE
from sojourn.harness.lab.instruments import bulk_flow
from sojourn.harness.lab.responsiveness import WithForeignProbes
from sojourn.harness.lab.simulated import SimLab
from sojourn.traffic import irtt
from sojourn.traffic.irtt import IrttClient

RTT_MS, RATE_BPS, PACKETS = 20, 10_000_000, 400
QUEUES = {"deep": f"pfifo limit {PACKETS}", "l4s": "dualpi2"}
ALONE_S, SETTLE_S, LOADED_S = 6, 8, 12
EVERY_S = 0.2
TESTED_S = 52  # eight intervals, and some


def path(queue: str) -> Bottleneck:
    qdisc, half = parse_qdisc(queue), Impairment(delay_us=RTT_MS * 500)
    ways = [Direction(rate_bps=RATE_BPS, qdisc=qdisc, path=half) for _ in range(2)]
    return Bottleneck(down=ways[0], up=ways[1])


def alone_and_loaded(lab: Lab, name: str, number: int, folder: Path) -> dict[str, tuple[float, float]]:
    """Let the probes run alone, then with CUBIC; return the windows, Unix s."""
    windows = {}
    begun = time.time()
    time.sleep(ALONE_S)
    windows["alone"] = begun, time.time() - 0.5
    flow = bulk_flow(lab, "cubic", folder, number, name=name)
    flow.start(60)
    time.sleep(SETTLE_S)
    begun = time.time()
    time.sleep(LOADED_S)
    windows["loaded"] = begun, time.time()
    time.sleep(2)  # in which the last probes end
    flow.stop()
    return windows


def tested(lab: Lab, folder: Path) -> dict[str, Any]:
    """Let a Responsiveness Test compete, long enough for its result; return its record."""
    flow = bulk_flow(lab, "rpm", folder, len(QUEUES), name="rpm")
    flow.start(60)
    time.sleep(TESTED_S)
    return flow.record("rpm", flow.stop())


def main(folder: Path) -> None:
    (folder / LOGS).mkdir()
    told: dict[str, Any] = {}
    with WithForeignProbes(SimLab(), folder, EVERY_S) as lab:
        assert lab.router
        lab.router.apply(path(QUEUES["deep"]))
        echo = irtt.start_server(lab.server, lab.addresses.server, folder / "echo.log")
        probe = IrttClient(lab.client, lab.addresses.server, folder / "irtt.json.gz").start(300)
        for number, (name, queue) in enumerate(QUEUES.items()):
            lab.router.apply(path(queue))
            told[name] = alone_and_loaded(lab, name, number, folder)
        lab.router.apply(path(QUEUES["deep"]))
        told["test"] = tested(lab, folder)
        assert [ended() for ended in lab.watched.values()] == [None, None]
        probe.stop()
        echo.stop()
    (folder / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(EVIDENCE)
