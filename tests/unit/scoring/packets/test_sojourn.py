# SPDX-License-Identifier: Apache-2.0
"""The same packets in two captures: a real capture beside copies of itself that a router might have made."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sojourn.scoring.packets import pcapng, sojourn
from sojourn.scoring.packets.pcapng import CE, ECT1, NOT_ECT

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def before() -> pl.DataFrame:
    """A CUBIC download and what came back: 225 packets."""
    return pcapng.read(DATA / "cubic.pcapng.zst").packets


def later(packets: pl.DataFrame, ms: float) -> pl.DataFrame:
    return packets.with_columns(pl.col("t_ns") + round(ms * 1e6))


def extended(packets: pl.DataFrame) -> pl.DataFrame:
    """A packet of another flow 10 s later: nothing before it is under way any more."""
    last = packets.tail(1).with_columns(pl.col("t_ns") + 10_000_000_000, sport=pl.lit(9, pl.UInt16))
    return pl.concat([packets, last])


@pytest.mark.parametrize("name", ["cubic", "ipv6"])
def test_every_packet_of_a_real_capture_is_told_from_every_other(name: str) -> None:
    captured = pcapng.read(DATA / f"{name}.pcapng.zst").packets
    assert captured.height > 200 and sojourn.alike(captured).is_empty()


def test_the_way_takes_what_it_takes_less_the_path(before: pl.DataFrame) -> None:
    found = sojourn.crossings(before, extended(later(before, 17.5)), path_ms=10)
    assert found.height == before.height
    assert found["sojourn_ms"].min() == pytest.approx(7.5) == found["sojourn_ms"].max()
    assert not found["marked"].any() and not found["late"].any()
    assert set(found["queue"]) == {"C"}


def test_a_packet_that_is_sooner_than_the_path_tells_of_the_clocks(before: pl.DataFrame) -> None:
    found = sojourn.crossings(before, extended(later(before, 9.5)), path_ms=10)
    assert found["sojourn_ms"].to_list() == pytest.approx([-0.5] * before.height)


def test_what_does_not_come_is_lost(before: pl.DataFrame) -> None:
    behind = extended(later(before, 3).gather_every(2))
    found = sojourn.crossings(before, behind)
    assert found["sojourn_ms"].null_count() == before.height // 2
    assert found["sojourn_ms"].max() == pytest.approx(3)


def test_a_packet_at_the_captures_end_may_be_under_way(before: pl.DataFrame) -> None:
    spread = before.with_columns(t_ns=pl.int_range(pl.len()) * 100_000_000)
    found = sojourn.crossings(spread, later(spread, 3).head(180))
    assert found.height == 160 and found["sojourn_ms"].null_count() == 0


def test_marks_are_those_of_the_way_and_the_queue_is_that_of_the_codepoint_before(before: pl.DataFrame) -> None:
    asked = before.with_columns(ecn=pl.when(pl.int_range(pl.len()) < 100).then(ECT1).otherwise(NOT_ECT).cast(pl.UInt8))
    behind = asked.with_columns(ecn=pl.when(pl.int_range(pl.len()) < 10).then(CE).otherwise("ecn").cast(pl.UInt8))
    found = sojourn.crossings(asked, extended(later(behind, 1)))
    assert found["marked"].sum() == 10
    assert found.filter(pl.col("queue") == "L").height == 100
    assert set(found.filter(pl.col("marked"))["queue"]) == {"L"}


def test_an_overtaken_packet_is_late(before: pl.DataFrame) -> None:
    behind = later(before, 1).with_columns(
        t_ns=pl.when(pl.int_range(pl.len()) == 50).then(pl.col("t_ns") + 2_000_000_000).otherwise("t_ns")
    )
    found = sojourn.crossings(before, extended(behind.sort("t_ns")))
    assert found["late"].sum() == 1 and found["late"][50]


def test_an_overtaken_packet_is_late_though_its_successor_was_lost(before: pl.DataFrame) -> None:
    number = pl.int_range(pl.len())
    flow = before.filter(pl.col("sport") == before["sport"][100]).with_columns(number=number)
    behind = later(flow, 1).with_columns(
        t_ns=pl.when(pl.col("number") == 50).then(pl.col("t_ns") + 2_000_000_000).otherwise("t_ns")
    )
    kept = behind.filter(pl.col("number") != 51).sort("t_ns").drop("number")
    found = sojourn.crossings(flow.drop("number"), extended(kept))
    assert found["sojourn_ms"].null_count() == 1 and found["late"].sum() == 1 and found["late"][50]


def test_packets_alike_are_left_out(before: pl.DataFrame) -> None:
    twice = pl.concat([before, before.head(3)]).sort("t_ns")
    assert sojourn.alike(twice).height == 6
    assert sojourn.crossings(twice, extended(later(before, 1))).height == before.height - 3


def test_without_packets_behind_nothing_is_known(before: pl.DataFrame) -> None:
    assert sojourn.crossings(before, before.clear()).height == 0


def test_of_a_way_that_nobody_knows_the_least_time_is_its_own(before: pl.DataFrame) -> None:
    """Whatever the two clocks tell: what stands in a queue is above it."""
    behind = later(before, -300).with_columns(
        t_ns=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.col("t_ns") + 12_000_000).otherwise("t_ns")
    )
    found = sojourn.crossings(before, extended(behind), path_ms=None)
    assert set(found["sojourn_ms"].round(6)) == {0.0, 12.0}
    assert sojourn.least_ms(before, behind) == -300 and sojourn.least_ms(before, behind.clear()) is None
