# SPDX-License-Identifier: Apache-2.0
"""Rate, marks and queue delay of a flow in intervals of 100 ms, from the captures on both sides of a bottleneck."""

from __future__ import annotations

import polars as pl

from sojourn.scoring.packets.pcapng import CE, ECT1
from sojourn.scoring.packets.sojourn import crossings
from sojourn.scoring.schema.columns import INTERVALS

STEP_S = 0.1
"""Length of an interval, s."""


def flow_intervals(
    before: pl.DataFrame, behind: pl.DataFrame, path_ms: float, flow: int, t0: float, seconds: float
) -> pl.DataFrame:
    """Return the rows of INTERVALS of flow number `flow`, for `seconds` s from `t0` (Unix s) on.

    Both captures have the flow's packets in its own direction, by one clock, with
    `sojourn.scoring.packets.per_flow.with_advance`; `path_ms` is the configured delay between them. Rates, and marks
    that arrive, are by the time behind the bottleneck; what was sent, lost, marked there and waited, by the time before
    it.
    """
    count = round(seconds / STEP_S)
    every = pl.DataFrame({"n": range(count)}, schema={"n": pl.Int64})
    data = pl.col("payload") > 0
    came = _numbered(behind, (pl.col("t_ns") - round(t0 * 1e9)) / 1e9).group_by("n")
    sent = _numbered(before, (pl.col("t_ns") - round(t0 * 1e9)) / 1e9).group_by("n")
    passed = _numbered(crossings(before, behind, path_ms).filter(data), pl.col("t") - t0).group_by("n")
    table = (
        every.join(
            came.agg(
                mbps=(pl.col("advance").sum() * 8 / STEP_S / 1e6).round(6), ce=(data & (pl.col("ecn") == CE)).sum()
            ),
            on="n",
            how="left",
        )
        .join(sent.agg(sent=data.sum(), ect1=(data & (pl.col("ecn") == ECT1)).sum()), on="n", how="left")
        .join(
            passed.agg(
                marked=pl.col("marked").sum(),
                lost=pl.col("sojourn_ms").is_null().sum(),
                queue_ms=pl.col("sojourn_ms").mean().round(4),
                queue_max_ms=pl.col("sojourn_ms").max().round(4),
            ),
            on="n",
            how="left",
        )
    )
    # Of packets that may still be under way when the captures end, nothing is known.
    unknown = pl.col("marked").is_null() & (pl.col("sent").fill_null(0) > 0)
    kept = {"queue_ms", "queue_max_ms"}
    figures = {name: pl.col(name) if name in kept else pl.col(name).fill_null(0) for name in list(INTERVALS)[2:]}
    figures |= {name: pl.when(~unknown).then(figures[name]) for name in ("marked", "lost")}
    return table.select(
        (pl.col("n") * STEP_S).round(6).alias("t_s"),
        pl.lit(flow, pl.Int64).alias("flow"),
        *(figure.cast(INTERVALS[name]).alias(name) for name, figure in figures.items()),
    )


def _numbered(packets: pl.DataFrame, since_s: pl.Expr) -> pl.DataFrame:
    # A packet exactly at an edge belongs to the interval that begins there.
    return packets.with_columns(n=(since_s / STEP_S + 1e-9).floor().cast(pl.Int64))
