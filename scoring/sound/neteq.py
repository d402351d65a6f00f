# SPDX-License-Identifier: Apache-2.0
"""The counters of NetEq, WebRTC's jitter buffer for sound, which the browser at an end of a call reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from sojourn.scoring.call_marks import growth
from sojourn.scoring.schema.windows import Window

TOTAL = "totalSamplesReceived"
COUNTERS = {
    "neteq_concealed_share": "concealedSamples",
    "neteq_stretched_share": "insertedSamplesForDeceleration",
    "neteq_shortened_share": "removedSamplesForAcceleration",
}
"""Names of `getStats`, by the fields of Metrics that are their shares of all samples."""
WAITED, EMITTED = "jitterBufferDelay", "jitterBufferEmittedCount"
"""Seconds that all emitted samples waited in the buffer, in steps of its 10 ms ticks, and how many they are."""

COLUMNS = {
    "samples": TOTAL,
    "concealed": COUNTERS["neteq_concealed_share"],
    "inserted": COUNTERS["neteq_stretched_share"],
    "removed": COUNTERS["neteq_shortened_share"],
    "emitted": EMITTED,
    "waited_s": WAITED,
}
"""Names of `getStats`, by the columns of NETEQ (`sojourn.scoring.schema.columns`) that have them."""


def neteq_log(lines: Iterable[Mapping[str, Any]]) -> pl.DataFrame | None:
    """Return the counters in the lines of player.jsonl: columns t (Unix s) and getStats' names; None without sound."""
    seconds = ((line["t"], line["detail"].get("sound")) for line in lines if line.get("event") == "call")
    names = (TOTAL, *COUNTERS.values(), EMITTED)
    rows = [{"t": t, **{name: sound.get(name) for name in (*names, WAITED)}} for t, sound in seconds if sound]
    columns = {"t": pl.Float64, **dict.fromkeys(names, pl.Int64), WAITED: pl.Float64}
    return pl.DataFrame(rows, columns).sort("t") if rows else None


def neteq_within(log: pl.DataFrame, windows: Sequence[Window]) -> dict[str, float | None]:
    """Return the growth of every counter in these windows as shares of all samples, and the mean time in the buffer."""
    total = growth(log.drop_nulls(TOTAL), TOTAL, windows)
    grown = {field: growth(log.drop_nulls(name), name, windows) for field, name in COUNTERS.items()}
    shares = {field: None if count is None or not total else count / total for field, count in grown.items()}
    emitted, waited = (growth(log.drop_nulls([EMITTED, WAITED]), name, windows) for name in (EMITTED, WAITED))
    return {**shares, "neteq_buffer_ms": 1e3 * waited / emitted if waited is not None and emitted else None}
