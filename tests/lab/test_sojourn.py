# SPDX-License-Identifier: Apache-2.0
"""Sojourn times found in two captures against what the queues themselves tell, with CUBIC and Prague in them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from bottleneck.sampler import QdiscSampler
from bottleneck.spec import Bottleneck
from captures.packets import PacketCapture
from harness.lab import Lab
from scoring import latency, packets, pcapng, queue_delay, sojourn
from traffic import ports
from traffic.contender import CONTENDERS
from traffic.iperf3 import BulkFlow

pytestmark = pytest.mark.lab

RTT_MS = 20
SETTLE_S, SECONDS = 5, 15
AGREE_MS = 1.0
TRIES = 2  # a stall of the host between two samples moves the queue's median, which 15 s hold few cycles of


@pytest.mark.parametrize(("qdisc", "queues"), [("fq_codel flows 1", "C"), ("dualpi2", "CL")])
def test_what_the_packets_tell_is_what_the_queue_tells(lab: Lab, tmp_path: Path, qdisc: str, queues: str) -> None:
    for attempt in range(TRIES):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        found = medians(lab, folder, qdisc, queues)
        print(f"{qdisc}: {found}")
        if all(abs(mine - told) <= AGREE_MS for mine, told in found.values()):
            return
    pytest.fail(f"packets and queue tell of other delays (ms) in each of {TRIES} tries, at last {found}")


def medians(lab: Lab, tmp_path: Path, qdisc: str, queues: str) -> dict[str, tuple[float, float]]:
    """Median sojourn time in ms of each queue: by its packets, and as the queue itself tells."""
    lab.router.apply(Bottleneck.symmetric(20_000_000, qdisc, RTT_MS * 1000))
    captures = [
        PacketCapture.start(tap.place, tap.interface, tmp_path / f"{name}.pcapng")
        for tap, name in ((lab.client_tap, "client"), (lab.server_tap, "server"))
    ]
    sampler = QdiscSampler(lab.router.place, tmp_path / "qdisc.jsonl", lab.router.lan, lab.router.wan, 0.02).start()
    flows = [
        BulkFlow(
            lab.sender, lab.receiver, lab.addresses.receiver, CONTENDERS[name], tmp_path,
            port=ports.BULK + n, sender_port=ports.FIRST_SENDER + n,
        )
        for n, name in enumerate(("cubic", "prague"))
    ]  # fmt: skip
    try:
        for flow in flows:
            flow.start(SETTLE_S + SECONDS + 30)
        begun = time.time() + SETTLE_S
        time.sleep(SETTLE_S + SECONDS)  # what is measured
        window = [(begun, begun + SECONDS)]
    finally:
        for flow in flows:
            flow.stop()
        sampler.stop()
        behind, before = (pcapng.read(capture.stop().file).packets for capture in captures)
        lab.router.clear()

    down = packets.select(before, src=lab.addresses.sender, dst=lab.addresses.receiver)
    waits = latency.within(sojourn.crossings(down, behind, RTT_MS / 2), window)
    assert waits.height > 15_000 and waits["sojourn_ms"].null_count() / waits.height < 0.1
    samples = [json.loads(line) for line in (tmp_path / "qdisc.jsonl").open()]
    own = latency.within(queue_delay.delays([s for s in samples if s["dev"] == lab.router.lan]), window)
    assert sampler.error is None and set(own["queue"]) == set(queues)
    result = {}
    for queue in queues:
        mine = waits if len(queues) == 1 else waits.filter(queue=queue)
        told = own.filter(queue=queue)
        assert told.height > 300
        by_packets, by_queue = (latency.percentile(part, 50, "sojourn_ms") for part in (mine, told))
        assert by_packets is not None and by_queue is not None
        result[queue] = by_packets, by_queue
    return result
