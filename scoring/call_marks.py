# SPDX-License-Identifier: Apache-2.0
"""The counters of ECN that the browser at an end of a SCReAM call reports every second."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from sojourn.scoring.schema.windows import Window

COUNTERS = {
    "media_sent_ect1": "packetsSentWithEct1",
    "media_received_ect1": "packetsReceivedWithEct1",
    "media_received_ce": "packetsReceivedWithCe",
    "media_bleached": "packetsWithBleachedEct1Marking",
    "ccfb_received": "ccfbMessagesReceived",
}
"""Names of `getStats`, by the fields of Metrics."""


def marks_log(lines: Iterable[Mapping[str, Any]]) -> pl.DataFrame | None:
    """Return the counters in the lines of player.jsonl: columns t (Unix s) and COUNTERS; None if there are none."""
    seconds = ((line["t"], line["detail"]) for line in lines if line.get("event") == "call")
    rows = [
        {"t": t, **{name: detail["marks"].get(counter) for name, counter in COUNTERS.items()}}
        for t, detail in seconds
        if detail.get("marks")
    ]
    return pl.DataFrame(rows, {"t": pl.Float64, **dict.fromkeys(COUNTERS, pl.Int64)}).sort("t") if rows else None


def marks_within(log: pl.DataFrame, windows: Sequence[Window]) -> dict[str, int | None]:
    """Return the growth of every counter in these windows; None for one that was never reported."""
    return {name: growth(log.drop_nulls(name), name, windows) for name in COUNTERS}


def growth(log: pl.DataFrame, name: str, windows: Sequence[Window]) -> Any:
    """Return the growth of a counter in these windows; None if it was never reported."""

    def at(t: float) -> Any:
        """The last report until `t`, else the first one."""
        return log[name][max(log["t"].search_sorted(t, "right") - 1, 0)]

    return sum(at(end) - at(start) for start, end in windows) if log.height else None
