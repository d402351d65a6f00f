# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import polars as pl
import pytest

from sojourn.scoring.packets.pcapng import SCHEMA
from sojourn.scoring.packets.per_packet import crossed, received
from sojourn.scoring.schema.columns import PACKETS
from sojourn.scoring.transport.single_packets import packet_scores

FIRST = 5201


def capture(*packets: tuple[float, int, int, int]) -> pl.DataFrame:
    """Packets of (s, port, IP id, payload)."""
    rows = [
        {"t_ns": round(at * 1e9), "src": 1, "dst": 2, "sport": 40000, "dport": port, "proto": 17, "ecn": 0}
        | {"ip_bytes": payload + 28, "seq": 0, "flags": 0, "payload": payload, "ip_id": ip_id, "fingerprint": ip_id}
        for at, port, ip_id, payload in packets
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def test_each_packet_is_followed_to_the_other_end() -> None:
    before = capture((1.0, FIRST, 1, 972), (1.1, FIRST + 1, 2, 972), (1.2, FIRST, 3, 972), (1.3, FIRST, 4, 0))
    behind = capture((1.05, FIRST, 1, 972), (1.25, FIRST, 3, 972), (1.35, FIRST, 4, 0))
    got = crossed(before, behind, FIRST, path_us=10_000)
    assert got.schema == PACKETS
    assert got["t_s"].to_list() == pytest.approx([1.0, 1.1, 1.2])
    assert got["flow"].to_list() == [0, 1, 0] and got["bytes"].to_list() == [1000] * 3
    assert got["delay_us"].round(3).to_list() == [60_000, None, 60_000]


def test_packets_that_cannot_be_told_apart_are_followed_in_their_order() -> None:
    before = capture((1.0, FIRST, 1, 972), (1.2, FIRST, 1, 972))
    behind = capture((1.05, FIRST, 1, 972), (1.26, FIRST, 1, 972))
    assert crossed(before, behind, FIRST, 0)["delay_us"].round(3).to_list() == [50_000, 60_000]


def test_what_came_up_to_a_moment_is_its_payload() -> None:
    behind = capture((1.0, FIRST, 1, 100), (2.0, FIRST, 2, 200), (2.5, FIRST + 1, 3, 400))
    assert received(behind, FIRST, [0.5, 1.0, 3.0]) == [0, 100, 300]
    assert received(behind, FIRST + 2, [1.0]) == [0]


def test_scores_are_pantheons() -> None:
    # 20 packets of 1000 bytes, 0.1 s apart, 10 to 29 ms on the way; one is lost and one is on its way at the end.
    rows = [(n * 0.1, 0, 1000, (10 + n) * 1000.0) for n in range(20)]
    rows[5] = (0.5, 0, 1000, None)
    rows.append((1.99, 0, 1000, 20_000.0))
    scores = packet_scores(pl.DataFrame(rows, schema=PACKETS, orient="row"), flows=2, seconds=2)
    flow, total = scores.flows[0], scores.total
    assert flow == total and flow.packets == 21
    assert flow.egress_mbps == pytest.approx(19 * 8e-3 / (1.9 + 0.029 - 0.010), rel=1e-3)
    assert flow.p95_owd_ms == 28
    assert flow.loss == pytest.approx(2 / 21, abs=1e-6)
    assert flow.series == [pytest.approx(n * 8e-3 / 0.5) for n in (5, 4, 5, 5)]
    assert scores.flows[1].document() | {"series": []} == {
        "packets": 0, "egress_mbps": None, "p95_owd_ms": None, "loss": None, "series": [],
    }  # fmt: skip
