# SPDX-License-Identifier: Apache-2.0
"""Scores of contenders other than bulk flows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any

import polars as pl

from sojourn.scoring.picture import rendition
from sojourn.scoring.schema.columns import SHORT
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.statistics.numbers import nearest_rank
from sojourn.scoring.transport.completion import completion
from sojourn.traffic.load import CALL, VIDEO, WEB


def _within(fetch: Mapping[str, Any], window: Window) -> float | None:
    """Return the duration of a fetch, s; None if it did not end in the window, like others after it."""
    took: float | None = fetch["fct_s"]
    return took if took is not None and fetch["start"] + took <= window[1] else None


def phase_fields(
    records: Iterable[Mapping[str, Any]], player: Sequence[Mapping[str, Any]], window: Window
) -> dict[str, Any]:
    """Return the results of a phase's applications inside its `window`: fields of PhaseScores.

    `records` are the phase's in bulk.json, `player` the lines of a second video's player.
    """
    fields: dict[str, Any] = {}
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        by_kind.setdefault(str(record.get("contender")), []).append(record)
    if users := by_kind.get(WEB):
        fetches = [it for user in users for it in user.get("fetches", ()) if window[0] <= it["start"] < window[1]]
        rows = [(it["start"] - window[0], it["bytes"], _within(it, window)) for it in fetches]
        fetched = completion(pl.DataFrame(rows, SHORT, orient="row"))
        fields |= {"web_flows": fetched.count, "web_unfinished": fetched.unfinished}
        fields |= {"web_fct_p50_s": fetched.median_s, "web_fct_p95_s": fetched.p95_s}
        had = [window[1] - start - window[0] if took is None else took for start, _, took in rows]
        for percent, name in ((50, "p50"), (95, "p95")):
            if fields[f"web_fct_{name}_s"] == inf:
                fields[f"web_fct_{name}_least_s"] = nearest_rank(had, percent)
    if by_kind.get(VIDEO):
        inside = [line for line in player if window[0] <= line["t"] < window[1]]
        samples = [line for line in inside if "event" not in line]
        fields["second_height"] = rendition.dominant(rendition.shares(rendition.from_player(samples), [window]))
        fields["second_stall_s"] = sum(b["t"] - a["t"] for a, b in pairwise(samples) if a.get("waiting"))
    for call in by_kind.get(CALL, ()):
        for way, heard in call.get("heard", {}).items():
            lost, p99 = heard.get("loss"), heard.get("delay_p99_ms")
            if lost is None:
                p99 = None  # how many were sent is not known
            elif lost > 0.01:
                p99 = inf  # of all packets that were sent
            fields |= {f"call_{way}_loss": lost, f"call_{way}_p99_ms": p99}
    return fields
