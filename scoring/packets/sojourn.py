# SPDX-License-Identifier: Apache-2.0
"""How long each packet took from one capture to the other: its way through the router, and the wait in its queue.

The same packet is known on both sides by its 5-tuple, its IP id and a fingerprint of its header and first payload. A
retransmission has another IP id and other TCP time stamps, so it is another packet; IPv6 has no id, and it is told by
its time stamps alone. Packets that cannot be told from each other are left out.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from sojourn.scoring.packets.pcapng import CE, ECT1
from sojourn.scoring.packets.per_flow import FLOW

_KEY: Final = [*FLOW, "ip_id", "fingerprint"]
_QUEUE: Final = pl.when(pl.col("ecn").is_in([ECT1, CE])).then(pl.lit("L")).otherwise(pl.lit("C")).alias("queue")
LEAST_NEGATIVE_MS = 0.001
"""A sojourn time below 0 by more than this is counted as negative: the clocks or the path are not as held to be."""
UNDER_WAY_S = 2.0
"""A packet that is seen before the router so shortly before the other capture's end may still be on its way."""


def crossings(before: pl.DataFrame, behind: pl.DataFrame, path_ms: float | None = 0.0) -> pl.DataFrame:
    """Packets of `before` (columns of sojourn.scoring.packets.pcapng.SCHEMA) and what became of each in `behind`.

    Both captures must be of one clock. Columns: those of FLOW, ip_bytes, payload; t, seen before the router (Unix s);
    sojourn_ms, the time to the capture behind it less `path_ms`, which the router was asked to add beside its queue
    (None: less the least time that a packet took), null when the packet did not come; ecn before it;
    `queue`, the queue that dualpi2 puts it in by that codepoint (RFC 9332, 2.3: ECT(1) and CE in L, all others in C);
    `marked`, CE behind but not before; `late`, overtaken by a packet of its flow that came after it. In order of t.
    A sojourn time below 0, which no packet can have, is left as it is: it tells of the clocks, or of the path.
    Packets of which there are several alike are left out, see `alike`.
    """
    until = behind["t_ns"].max()
    if not isinstance(until, int):
        until = 0
    lone = before.filter(pl.col("t_ns") <= until - round(UNDER_WAY_S * 1e9)).filter(_unique())
    joined = _followed(lone, behind)
    passed_ms = (pl.col("t_behind") - pl.col("t_ns")) / 1e6
    # The least of all that follow, over those that were lost, which came at no time.
    soonest_after = pl.col("t_behind").cum_min(reverse=True).backward_fill().shift(-1).over(FLOW)
    return joined.sort("t_ns").select(
        *FLOW,
        "ip_bytes",
        "payload",
        (pl.col("t_ns") / 1e9).alias("t"),
        (passed_ms - (passed_ms.min() if path_ms is None else path_ms)).alias("sojourn_ms"),
        "ecn",
        _QUEUE,
        ((pl.col("ecn_behind") == CE) & (pl.col("ecn") != CE)).fill_null(False).alias("marked"),
        (pl.col("t_behind") > soonest_after).fill_null(False).alias("late"),
    )


def least_ms(before: pl.DataFrame, behind: pl.DataFrame) -> float | None:
    """The least time that a packet took from one capture to the other, by their clocks; None where none came."""
    taken = _followed(before.filter(_unique()), behind).select(pl.col("t_behind") - pl.col("t_ns")).to_series().min()
    return taken / 1e6 if isinstance(taken, int) else None


def alike(packets: pl.DataFrame) -> pl.DataFrame:
    """The packets of a capture that cannot be told from another one of it, with t and queue as above."""
    return packets.filter(~_unique()).with_columns((pl.col("t_ns") / 1e9).alias("t"), _QUEUE)


def _followed(lone: pl.DataFrame, behind: pl.DataFrame) -> pl.DataFrame:
    """Packets that are unlike each other, with t_behind and ecn_behind, null of those that did not come."""
    there = behind.group_by(_KEY).agg(t_behind=pl.first("t_ns"), ecn_behind=pl.first("ecn"), times=pl.len())
    return lone.join(there, on=_KEY, how="left").filter(pl.col("times").fill_null(1) == 1)


def _unique() -> pl.Expr:
    return pl.len().over(_KEY) == 1
