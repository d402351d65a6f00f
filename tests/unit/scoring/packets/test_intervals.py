# SPDX-License-Identifier: Apache-2.0
"""Rate, marks and queue delay per 100 ms: of packets that a router delays, marks and drops by rules known here."""

from __future__ import annotations

import polars as pl
import pytest

from sojourn.scoring.packets import per_flow
from sojourn.scoring.packets.intervals import flow_intervals
from sojourn.scoring.packets.pcapng import CE, ECT1, SCHEMA, UDP
from sojourn.scoring.schema.columns import INTERVALS

T0 = 1_000.0
EVERY_MS, PATH_MS, PAYLOAD = 10, 10.0, 1000


def packets(count: int = 500) -> pl.DataFrame:
    """A UDP packet with ECT(1) every 10 ms from T0 on, that is 10 in 100 ms and 0.8 Mbit/s."""
    number = pl.int_range(count, eager=True)
    columns = {
        "t_ns": number * EVERY_MS * 1_000_000 + round(T0 * 1e9), "ip_id": number % 65536, "fingerprint": number,
        "src": 1, "dst": 2, "sport": 40000, "dport": 5201, "proto": UDP, "ecn": ECT1, "payload": PAYLOAD,
        "ip_bytes": PAYLOAD + 28,
    }  # fmt: skip
    every = {name: columns.get(name, 0) for name in SCHEMA}
    frame = pl.DataFrame({"n": number}).with_columns(
        *((pl.lit(value) if isinstance(value, int) else value).cast(SCHEMA[name]).alias(name)
          for name, value in every.items())
    )  # fmt: skip
    return per_flow.with_advance(frame.drop("n"))


def behind(sent: pl.DataFrame, queue_ms: float = 2.0) -> pl.DataFrame:
    return sent.with_columns(pl.col("t_ns") + round((PATH_MS + queue_ms) * 1e6))


def rows(before: pl.DataFrame, after: pl.DataFrame, seconds: float = 2.0) -> pl.DataFrame:
    return flow_intervals(before, after, PATH_MS, 3, T0, seconds)


def test_a_steady_flow_has_the_same_in_every_interval_once_packets_arrive() -> None:
    sent = packets()
    found = rows(sent, behind(sent))
    assert dict(found.schema) == dict(INTERVALS) and found.height == 20
    assert found["t_s"].to_list()[:3] == [0.0, 0.1, 0.2] and set(found["flow"]) == {3}
    assert found["mbps"].to_list()[1:] == [pytest.approx(0.8)] * 19
    assert found["mbps"][0] == pytest.approx(0.8 * 9 / 10)  # the first arrives 12 ms later, the tenth after 100 ms
    assert set(found["sent"]) == {10} == set(found["ect1"])
    assert set(found["ce"]) == set(found["marked"]) == set(found["lost"]) == {0}
    assert found["queue_ms"].to_list() == [pytest.approx(2.0)] * 20


def test_marks_and_losses_count_where_the_packet_came_and_marks_also_where_they_arrive() -> None:
    sent = packets()
    marked = pl.int_range(pl.len()).is_in([19, 20])
    after = behind(sent).with_columns(ecn=pl.when(marked).then(CE).otherwise("ecn").cast(SCHEMA["ecn"]))
    lost = after.filter(pl.int_range(pl.len()) != 35)
    found = rows(sent, lost)
    assert found["marked"].to_list()[:4] == [0, 1, 1, 0]
    assert found["ce"].to_list()[:4] == [0, 0, 2, 0]
    assert found["lost"].to_list()[:5] == [0, 0, 0, 1, 0]
    assert found["queue_max_ms"].to_list() == [pytest.approx(2.0)] * 20


def test_an_interval_without_packets_has_no_delay() -> None:
    sent = packets().filter(pl.col("t_ns") >= round((T0 + 0.5) * 1e9))
    found = rows(sent, behind(sent), 1.0)
    assert found["queue_ms"].to_list()[:5] == [None] * 5 and found["queue_ms"].to_list()[5] == pytest.approx(2.0)
    assert found["mbps"].to_list()[:5] == [0.0] * 5 and found["sent"].to_list()[:5] == [0] * 5


def test_of_packets_that_may_still_be_under_way_neither_marks_nor_losses_are_known() -> None:
    sent = packets(400)  # 4 s
    found = rows(sent, behind(sent), 5.0)
    known = [0] * 20 + [None] * 20 + [0] * 10  # the last second has no packets
    assert found["marked"].to_list()[:19] == known[:19] and found["marked"].to_list()[21:] == known[21:]
    assert found["lost"].to_list()[21:] == known[21:] and found["sent"].to_list() == [10] * 40 + [0] * 10
    assert found["queue_ms"].to_list()[21:] == [None] * 29
