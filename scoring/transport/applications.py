# SPDX-License-Identifier: Apache-2.0
"""What competes besides bulk flows: whether it was there throughout its phase, and what it had of the line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, pairwise
from math import inf
from typing import Any

import polars as pl

from sojourn.scoring import validity
from sojourn.scoring.evidence import SideCapture
from sojourn.scoring.packets import per_flow
from sojourn.scoring.picture import rendition
from sojourn.scoring.schema.columns import SHORT
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.statistics.numbers import nearest_rank
from sojourn.scoring.transport.cell_scores import completion
from sojourn.scoring.validity import Gate, Limits
from sojourn.traffic import ports
from sojourn.traffic.load import CALL, VIDEO, WEB
from sojourn.traffic.web import arrivals

#: A fetch that is to begin so shortly before the end need not have begun.
_LAST_S = 1.0


def proven(
    name: str,
    contender: str,
    record: Mapping[str, Any],
    window: Window,
    sides: tuple[SideCapture | None, SideCapture | None],
    player: Sequence[Mapping[str, Any]],
    limits: Limits,
) -> Gate:
    """The gate of an application: it was there throughout the `window`, and its packets are in the captures.

    `record` is its entry in bulk.json, empty where there is none; `sides` are what was captured before the bottleneck
    and behind it, as data goes down; `player` the lines of a second video's player.
    """
    name, (before, behind) = f"contender proven ({name})", sides
    if not record or before is None or behind is None:
        return validity.gate(name, False, "not recorded", f"{contender} data")
    if contender == WEB:
        return _fetched(name, record, window, before.contender)
    if contender == VIDEO:
        # However long a queue starves it, its player tells that it is there.
        there = {"player": [line["t"] for line in player if "event" not in line]}
        came = before.contender.filter(pl.col("sport") == ports.SECOND, _inside(window)).height
        ok, counted = came > 0, f"; {came} packets"
    else:
        ways = (("down", before.contender), ("up", behind.upload))
        sent = {way: table.filter(pl.col("dport") == ports.TALK + n) for n, (way, table) in enumerate(ways)}
        there = {way: (table["t_ns"] / 1e9).to_list() for way, table in sent.items()}
        ok, counted = True, ""
    seen = {what: validity.covers(what, times, window, limits) for what, times in there.items()}
    measured = "; ".join(f"{what} {one.measured}" for what, one in seen.items()) + counted
    limit = f"packets, the whole phase, no gap over {limits.gap_s:g} s"
    return validity.gate(name, ok and all(one.ok for one in seen.values()), measured, limit)


def _inside(window: Window) -> pl.Expr:
    return (pl.col("t_ns") / 1e9).is_between(*window)


def _fetched(name: str, record: Mapping[str, Any], window: Window, sent: pl.DataFrame) -> Gate:
    """Each fetch of a web user began as its seed has it, and those that ended are whole in the capture."""
    fetches = record.get("fetches", ())
    due = window[1] - _LAST_S - record.get("start", 0.0)
    asked = {at for at, _ in islice(arrivals(str(record.get("draw"))), len(fetches) + 1) if at <= due}
    begun = len(asked & {fetch["at"] for fetch in fetches})
    ended = [fetch for fetch in fetches if fetch["fct_s"] is not None]
    mine = per_flow.select(sent, sport=record.get("sender_port")).group_by("dport").agg(pl.col("advance").sum())
    arrived = dict(mine.iter_rows())
    whole = sum(arrived.get(fetch["port"], 0) >= fetch["bytes"] for fetch in ended)
    measured = f"{begun} of {len(asked)} fetches begun, {whole} of {len(ended)} ended ones in the capture"
    return validity.gate(name, 0 < len(asked) == begun and whole == len(ended), measured, "all")


def _within(fetch: Mapping[str, Any], window: Window) -> float | None:
    """How long a fetch took, s; None where it did not end in the window: behind it others have ended too."""
    took: float | None = fetch["fct_s"]
    return took if took is not None and fetch["start"] + took <= window[1] else None


def told(records: Iterable[Mapping[str, Any]], player: Sequence[Mapping[str, Any]], window: Window) -> dict[str, Any]:
    """What the applications of a phase had inside its `window`: fields of PhaseScores.

    `records` are the phase's in bulk.json, `player` the lines of a second video's player.
    """
    fields: dict[str, Any] = {}
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        by_kind.setdefault(str(record.get("contender")), []).append(record)
    if users := by_kind.get(WEB):
        fetches = [it for user in users for it in user.get("fetches", ()) if window[0] <= it["start"] < window[1]]
        rows = [(it["start"] - window[0], it["bytes"], _within(it, window)) for it in fetches]
        found = completion(pl.DataFrame(rows, SHORT, orient="row"))
        fields |= {"web_flows": found["count"], "web_unfinished": found["unfinished"]}
        times = (("web_fct_p50_s", "median_s"), ("web_fct_p95_s", "p95_s"))
        fields |= {field: float(found[name]) if name in found else None for field, name in times}
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
            if lost is not None and lost > 0.01:
                p99 = inf  # of all packets that were sent
            fields |= {f"call_{way}_loss": lost, f"call_{way}_p99_ms": p99}
    return fields
