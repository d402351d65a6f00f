# SPDX-License-Identifier: Apache-2.0
"""The time of every packet between the two captures: through the router, and in its queue.

The same packet is known on both sides by its 5-tuple, its IP id and a fingerprint of its header and first payload. A
retransmission has another IP id and other TCP time stamps, so it is another packet; IPv6 has no id, so only the time
stamps distinguish packets. Ambiguous packets are excluded.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from sojourn.scoring.packets.pcapng import CE, ECT1
from sojourn.scoring.packets.per_flow import FLOW

_KEY: Final = [*FLOW, "ip_id", "fingerprint"]
_QUEUE: Final = pl.when(pl.col("ecn").is_in([ECT1, CE])).then(pl.lit("L")).otherwise(pl.lit("C")).alias("queue")
LEAST_NEGATIVE_MS = 0.001
"""A sojourn time below 0 by more than this counts as negative: the clocks or the path delay are wrong."""
UNDER_WAY_S = 2.0
"""What was sent this shortly before the end of a recording may still be in flight."""


def crossings(before: pl.DataFrame, behind: pl.DataFrame, path_ms: float | None = 0.0) -> pl.DataFrame:
    """Return the packets of `before` (columns of sojourn.scoring.packets.pcapng.SCHEMA), matched in `behind`.

    Both captures must be of one clock. Columns: those of FLOW, ip_bytes, payload; t, seen before the router (Unix s);
    sojourn_ms, the time to the capture behind it less `path_ms`, the router's configured path delay
    (None: less the minimum over all packets), null if the packet was lost; ecn before it;
    `queue`, the queue that dualpi2 puts it in by that codepoint (RFC 9332, 2.3: ECT(1) and CE in L, all others in C);
    `marked`, CE behind but not before; `late`, overtaken by a packet of its flow that came after it. In order of t.
    Negative sojourn times, which are impossible, are kept as evidence about the clocks or the path.
    Ambiguous packets are excluded, see `alike`.
    """
    until = behind["t_ns"].max()
    if not isinstance(until, int):
        until = 0
    lone = before.filter(pl.col("t_ns") <= until - round(UNDER_WAY_S * 1e9)).filter(_unique())
    joined = _followed(lone, behind)
    passed_ms = (pl.col("t_behind") - pl.col("t_ns")) / 1e6
    # The minimum over all later packets, ignoring lost ones.
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
    """Return the minimum time between the captures, by their clocks; None if no packet arrived."""
    taken = _followed(before.filter(_unique()), behind).select(pl.col("t_behind") - pl.col("t_ns")).to_series().min()
    return taken / 1e6 if isinstance(taken, int) else None


def alike(packets: pl.DataFrame) -> pl.DataFrame:
    """Return the ambiguous packets of a capture, with t and queue as above."""
    return packets.filter(~_unique()).with_columns((pl.col("t_ns") / 1e9).alias("t"), _QUEUE)


def _followed(lone: pl.DataFrame, behind: pl.DataFrame) -> pl.DataFrame:
    """Return unambiguous packets, with t_behind and ecn_behind, null for lost ones."""
    there = behind.group_by(_KEY).agg(t_behind=pl.first("t_ns"), ecn_behind=pl.first("ecn"), times=pl.len())
    return lone.join(there, on=_KEY, how="left").filter(pl.col("times").fill_null(1) == 1)


def _unique() -> pl.Expr:
    return pl.len().over(_KEY) == 1
