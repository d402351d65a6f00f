# SPDX-License-Identifier: Apache-2.0
"""How far a player is behind a broadcast with low latency, and how fast it plays to stay there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from sojourn.scoring.schema.windows import Window


def latency_log(lines: Iterable[Mapping[str, Any]]) -> pl.DataFrame | None:
    """Return what a player's page logged of its latency in player.jsonl: columns t (Unix s), latency_s and rate.

    `latency_s` is the time since the shown picture was broadcast, `rate` the speed of playback; None without any.
    """
    rows = [
        {"t": line["t"], "latency_s": line["detail"]["latency_s"], "rate": line["detail"]["rate"]}
        for line in lines
        if line.get("event") == "latency"
    ]
    columns = dict.fromkeys(("t", "latency_s", "rate"), pl.Float64)
    return pl.DataFrame(rows, columns).sort("t") if rows else None


def latency_within(log: pl.DataFrame, windows: Sequence[Window]) -> dict[str, float | None]:
    """Return the fields of Metrics over all windows together: mean and maximum, drift, and the speed of playback.

    The drift is the sum over the windows of the latency at the end less that at the beginning.
    """
    parts = [log.filter(pl.col("t").is_between(start, end, closed="left")) for start, end in windows]
    inside = pl.concat(parts)
    if inside.is_empty():
        return {}
    latency, rate = inside["latency_s"], inside["rate"]
    return {
        "live_latency_s": float(latency.mean()),  # type: ignore[arg-type]
        "live_latency_max_s": float(latency.max()),  # type: ignore[arg-type]
        "live_drift_s": sum(float(part["latency_s"][-1] - part["latency_s"][0]) for part in parts if part.height),
        "playback_rate": float(rate.mean()),  # type: ignore[arg-type]
        "catch_up_share": float((rate > 1).sum()) / inside.height,
    }
