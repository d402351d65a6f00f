# SPDX-License-Identifier: Apache-2.0
"""lfq_cobalt in simulated time: who goes when, who gets how much, and that no flow's packets change places."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.lab.simulated import Talk, talk

pytestmark = pytest.mark.lab
MS = 1_000_000
PACKET = 1200


def lfq(words: str) -> str:
    return f"tc -n router qdisc add dev lan root handle 10: lfq_cobalt {words}\n"


def arrived(packets: pl.DataFrame) -> pl.DataFrame:
    return packets.with_columns(at_us=pl.col("t_s") * 1e6 + pl.col("delay_us"))


def test_the_order_in_which_packets_leave(tmp_path: Path) -> None:
    """Bursts of 8 and 4 packets and a small one 3.5 ms later; a packet takes 0.9936 ms, a turn is 1514 bytes.

    The first of each flow is sparse and is its turn; then both have one packet a round, 272 bytes of each turn being
    left over, until the second is done. The small one, sparse too, goes before all that wait.
    """
    flows = [
        Talk(10_000 * MS, 8 * PACKET),
        Talk(10_000 * MS, 4 * PACKET),
        Talk(10_000 * MS, 58, first_ns=103_500_000),
    ]
    packets = arrived(talk(lfq("bandwidth 10mbit"), flows, tmp_path, 1))
    assert "".join("abc"[n] for n in packets.sort("at_us")["talk"]) == "ababcababaaaa"
    # The link is never idle: 12 packets of 1242 bytes and one of 100.
    assert packets["at_us"].max() - packets["at_us"].min() == pytest.approx(11 * 993.6 + 80, abs=1)  # type: ignore[operator]


def in_order(packets: pl.DataFrame) -> bool:
    return all(flow["at_us"].drop_nulls().is_sorted() for flow in packets.partition_by("talk"))


def test_who_has_packets_waiting_gets_as_many_bytes_as_another(tmp_path: Path) -> None:
    """500 and 400 packets at once, bursts of 32 at 0.8 times the link, and 242 bytes each 0.1 ms; no signals."""
    flows = [
        Talk(10_000 * MS, 500 * PACKET),
        Talk(10_000 * MS, 400 * PACKET),
        Talk(40 * MS, 32 * PACKET),
        Talk(100_000, 200),
    ]
    packets = arrived(talk(lfq("bandwidth 10mbit target 4s interval 4s"), flows, tmp_path, 1))
    busy = packets.filter((pl.col("at_us") > 0.2e6) & (pl.col("at_us") < 0.9e6))
    carried = busy.group_by("talk").agg((pl.col("bytes") + 42).sum()).sort("talk")["bytes"].to_list()
    assert [share / sum(carried) for share in carried] == pytest.approx([0.25] * 4, abs=0.005)
    assert in_order(packets)


def test_a_sparse_flow_waits_for_none_while_others_overflow(tmp_path: Path) -> None:
    """100 bytes each 16 ms beside six times what the link carries, bursts of 32 and small packets among that."""
    flows = [
        Talk(331_200, PACKET),
        Talk(993_600, PACKET),
        Talk(32 * 993_600, 32 * PACKET),
        Talk(193_600, 200),
        Talk(16 * MS, 58),
    ]
    packets = arrived(talk(lfq("bandwidth 10mbit limit 200"), flows, tmp_path, 3))
    lost, waited = (
        packets.group_by("talk")
        .agg(lost=pl.col("delay_us").null_count() / pl.len(), waited=pl.col("delay_us").max())
        .sort("talk")[["lost", "waited"]]
        .get_columns()
    )
    assert lost[4] == 0 and lost[0] > 0.5
    # The packet on the wire, and one of each other flow that is sparse just then.
    assert waited[4] < 5 * 993.6 < 20_000 < waited[0]
    assert in_order(packets)
