# SPDX-License-Identifier: Apache-2.0
"""Scores of single packets, by Pantheon's definitions."""

from __future__ import annotations

import numpy as np
import polars as pl

from sojourn.scoring.schema.cell_scores import PacketScores, PacketsScores

BIN_S = 0.5
"""Width of the series' bins, s, as in Pantheon."""


def packet_scores(packets: pl.DataFrame, flows: int, seconds: float) -> PacketsScores:
    """Return the scores of each of `flows` and of all together (`total`) over a run of `seconds`."""
    each = [_scores(packets.filter(pl.col("flow") == n), seconds) for n in range(flows)]
    return PacketsScores(flows=each, total=_scores(packets, seconds))


def _scores(packets: pl.DataFrame, seconds: float) -> PacketScores:
    out = packets.with_columns(out_s=pl.col("t_s") + pl.col("delay_us") / 1e6)
    came = out.filter(pl.col("out_s") <= seconds).sort("out_s")
    times, sizes = came["out_s"].to_numpy(), came["bytes"].to_numpy()
    loss = egress_mbps = p95_owd_ms = None
    if packets.height:
        loss = round(1 - float(sizes.sum()) / float(packets["bytes"].to_numpy().sum()), 6)
    if times.size and times[-1] > times[0]:
        egress_mbps = round(float(sizes.sum()) * 8 / (times[-1] - times[0]) / 1e6, 4)
        delays_ms = came["delay_us"].to_numpy() / 1e3
        p95_owd_ms = round(float(np.percentile(delays_ms, 95, method="nearest")), 3)
    got, _ = np.histogram(times, np.arange(0, seconds + BIN_S / 2, BIN_S), weights=sizes)
    series = [round(float(x) * 8 / BIN_S / 1e6, 4) for x in got]
    return PacketScores(
        packets=packets.height, egress_mbps=egress_mbps, p95_owd_ms=p95_owd_ms, loss=loss, series=series
    )
