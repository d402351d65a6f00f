# SPDX-License-Identifier: Apache-2.0
"""Runs in a simulated machine: foreign probes and irtt through a bottleneck, alone and with a flow of CUBIC."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

from sojourn.apps.standins.origin import HOST, ensure_certificate
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.qdiscs import parse_qdisc
from sojourn.bottleneck.spec import Bottleneck, Direction
from sojourn.harness.lab.contract import Lab
from sojourn.harness.lab.guest_job import EVIDENCE
from sojourn.harness.lab.simulated import SimLab
from sojourn.traffic import irtt, ports, rpm_programs
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.iperf3 import BulkFlow
from sojourn.traffic.irtt import IrttClient

RTT_MS, RATE_BPS, PACKETS = 20, 10_000_000, 400
QUEUES = {"deep": f"pfifo limit {PACKETS}", "l4s": "dualpi2"}
ALONE_S, SETTLE_S, LOADED_S = 6, 8, 12
EVERY_S = 0.1


def path(queue: str) -> Bottleneck:
    qdisc, half = parse_qdisc(queue), Impairment(delay_us=RTT_MS * 500)
    ways = [Direction(rate_bps=RATE_BPS, qdisc=qdisc, path=half) for _ in range(2)]
    return Bottleneck(down=ways[0], up=ways[1])


def measure(lab: Lab, name: str, folder: Path) -> dict[str, tuple[float, float]]:
    """Probe through one queue; return the windows, Unix s."""
    certificate = ensure_certificate()
    identity = rpm_programs.Identity(certificate.chain, certificate.key, certificate.authority, HOST)
    at = lab.addresses.server, ports.RPM
    server = rpm_programs.start_server(lab.server, *at, identity, folder / f"{name}-server.log")
    echo = irtt.start_server(lab.server, lab.addresses.server, folder / f"{name}-echo.log")
    probe = IrttClient(lab.client, lab.addresses.server, folder / f"{name}-irtt.json.gz").start(60)
    file, every = folder / f"{name}.jsonl", f"--interval={EVERY_S}"
    client = rpm_programs.start_client("probe", lab.client, *at, identity, file, every)
    windows = {}
    begun = time.time()
    time.sleep(ALONE_S)
    windows["alone"] = begun, time.time() - 0.5
    flow = BulkFlow(lab.sender, lab.receiver, lab.addresses.receiver, CONTENDERS["cubic"], folder, name=name)
    flow.start(60)
    time.sleep(SETTLE_S)
    begun = time.time()
    time.sleep(LOADED_S)
    windows["loaded"] = begun, time.time()
    time.sleep(2)
    assert client.alive() and server.alive()
    client.stop()
    probe.stop()
    flow.stop()
    echo.stop()
    server.stop(signal.SIGTERM)
    return windows


def main(folder: Path) -> None:
    told = {}
    with SimLab() as lab:
        assert lab.router
        for name, queue in QUEUES.items():
            lab.router.apply(path(queue))
            told[name] = measure(lab, name, folder)
    (folder / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(EVIDENCE)
