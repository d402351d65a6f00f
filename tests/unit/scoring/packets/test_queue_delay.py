# SPDX-License-Identifier: Apache-2.0
"""Lines of qdisc.jsonl as an APU's tc (iproute2 7.2) wrote them, cut to what is read."""

from __future__ import annotations

from typing import Any

from sojourn.scoring.packets.queue_delay import carrier, delays

HTB = {"kind": "htb", "handle": "1:", "root": True, "bytes": 99_000, "options": {}}
PROBES = {"kind": "dualpi2", "handle": "20:", "parent": "1:20", "bytes": 100, "delay-c": 1, "delay-l": 1}


def dualpi2(c: int, low: int) -> dict[str, Any]:
    return {"kind": "dualpi2", "handle": "10:", "parent": "1:10", "bytes": 90_000, "delay-c": c, "delay-l": low}


def test_dualpi2_tells_of_both_its_queues() -> None:
    samples = [
        {"t": 1.0, "dev": "lan", "qdiscs": [HTB, dualpi2(15_250, 480), PROBES]},
        {"t": 1.1, "dev": "lan", "qdiscs": [HTB, dualpi2(16_000, 0), PROBES]},
    ]
    assert carrier(samples) == "10:"
    assert delays(samples).rows() == [(1.0, "C", 15.25), (1.0, "L", 0.48), (1.1, "C", 16.0), (1.1, "L", 0.0)]


def test_fq_codel_tells_of_its_queue_while_that_is_in_use() -> None:
    queue = {"kind": "fq_codel", "handle": "10:", "parent": "1:10", "bytes": 90_000, "options": {"flows": 1}}
    stats = {"drops": 0, "backlog": 9084, "qlen": 6, "deficit": -1073, "count": 1, "lastcount": 1, "ldelay": 3978}
    busy = {"class": "fq_codel", "handle": "10:1", "parent": "10:", "stats": stats}
    samples = [
        {"t": 1.0, "dev": "lan", "qdiscs": [HTB, queue], "classes": [busy | {"parent": "20:"}, busy]},
        {"t": 1.1, "dev": "lan", "qdiscs": [HTB, queue], "classes": []},
    ]
    assert delays(samples).rows() == [(1.0, "C", 3.978)]


def test_a_queue_that_tells_nothing_has_no_rows() -> None:
    pfifo = {"kind": "pfifo", "handle": "10:", "parent": "1:10", "bytes": 90_000}
    assert delays([{"t": 1.0, "dev": "lan", "qdiscs": [HTB, pfifo]}]).is_empty()
    assert delays([]).is_empty()
