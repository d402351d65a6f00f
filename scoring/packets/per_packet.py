# SPDX-License-Identifier: Apache-2.0
"""Throughput, one-way delay and loss per flow from its packets, by Pantheon's definitions. Pure.

Source: Yan et al., "Pantheon: the training ground for Internet congestion-control research", USENIX ATC 2018, and its
analysis (METRICS 4): throughput is the data that leaves the path over the time from its first packet to the last; the
95th percentile (by NumPy's method `nearest`, not nearest rank) is over delivered packets; loss is in bytes, and packets
in flight at the end count as lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from sojourn.scoring.packets.per_flow import FLOW

_KEY = [*FLOW, "ip_id", "fingerprint"]


def crossed(before: pl.DataFrame, behind: pl.DataFrame, first_port: int, path_us: float) -> pl.DataFrame:
    """Return the packets with payload in two captures with one clock, as PACKETS.

    Both captures have the columns of `sojourn.scoring.packets.pcapng.SCHEMA`.

    `before` and `behind` hold packets to the ports from `first_port` on, one per flow, at the entry and the exit of
    the path; `path_us` is added to all delays, for a part of the path outside the captures. Identical packets, such
    as duplicates, are matched in order.
    """
    payload = pl.col("payload") > 0
    sent = before.filter(payload).with_columns(nth=pl.int_range(pl.len()).over(_KEY))
    came = behind.filter(payload).select(*_KEY, t_behind="t_ns", nth=pl.int_range(pl.len()).over(_KEY))
    return (
        sent.join(came, on=[*_KEY, "nth"], how="left", maintain_order="left")
        .sort("t_ns", maintain_order=True)
        .select(
            (pl.col("t_ns") / 1e9).alias("t_s"),
            (pl.col("dport").cast(pl.Int64) - first_port).alias("flow"),
            pl.col("ip_bytes").cast(pl.Int64).alias("bytes"),
            ((pl.col("t_behind") - pl.col("t_ns")) / 1e3 + path_us).alias("delay_us"),
        )
    )


def received(behind: pl.DataFrame, port: int, moments_s: Sequence[float]) -> list[int]:
    """Return the payload bytes that arrived at `port` up to each of the ascending `moments_s`, s of the capture."""
    mine = behind.filter(pl.col("dport") == port).sort("t_ns")
    total = np.concatenate([[0], mine["payload"].cast(pl.Int64).cum_sum().to_numpy()])
    at = np.searchsorted(mine["t_ns"].to_numpy(), np.array(moments_s) * 1e9, side="right")
    return [int(total[n]) for n in at]
