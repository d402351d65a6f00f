# SPDX-License-Identifier: Apache-2.0
"""Contenders other than bulk flows were active throughout their phase: web users, a second video, a call, a game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import polars as pl

from sojourn.scoring.gates.base import covers, gate
from sojourn.scoring.packets import per_flow
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.validity import Gate, Limits
from sojourn.traffic import ports
from sojourn.traffic.load import GAME, VIDEO, WEB
from sojourn.traffic.web import arrivals

if TYPE_CHECKING:
    from sojourn.scoring.evidence import SideCapture

CODE = "contender-proven"
#: A fetch due this shortly before the end may be missing.
_LAST_S = 1.0


def application_proven(
    name: str,
    contender: str,
    record: Mapping[str, Any],
    window: Window,
    sides: tuple[SideCapture | None, SideCapture | None],
    player: Sequence[Mapping[str, Any]],
    limits: Limits,
) -> Gate:
    """An application was active throughout the `window`, and its packets are in the captures.

    `record` is its entry in bulk.json, empty if there is none; `sides` are the captures before and after the downlink
    bottleneck; `player` the lines of a second video's player.
    """
    name, (before, behind) = f"contender proven ({name})", sides
    if not record or before is None or behind is None:
        return gate(CODE, name, False, "not recorded", f"{contender} data")
    if contender == WEB:
        return _fetched(name, record, window, before.contender)
    if contender == VIDEO:
        # Even if a queue starves it, its player reports its presence.
        there = {"player": [line["t"] for line in player if "event" not in line]}
        inside = (pl.col("t_ns") / 1e9).is_between(*window)
        came = before.contender.filter(pl.col("sport") == ports.SECOND, inside).height
        ok, counted = came > 0, f"; {came} packets"
    else:
        talk = pl.col("dport") == ports.TALK, pl.col("dport") == ports.TALK + 1
        game = pl.col("sport") == ports.GAME, pl.col("dport") == ports.GAME
        ways = zip(("down", "up"), (before.contender, behind.upload), game if contender == GAME else talk, strict=True)
        # It may compete in other phases too.
        begin, end = record.get("start", window[0]) - limits.gap_s, record.get("end", window[1]) + limits.gap_s
        sent = {way: table.filter(own, (pl.col("t_ns") / 1e9).is_between(begin, end)) for way, table, own in ways}
        there = {way: (table["t_ns"] / 1e9).to_list() for way, table in sent.items()}
        ok, counted = True, ""
    seen = {what: covers(CODE, what, times, window, limits) for what, times in there.items()}
    measured = "; ".join(f"{what} {one.measured}" for what, one in seen.items()) + counted
    limit = f"packets, the whole phase, no gap over {limits.gap_s:g} s"
    return gate(CODE, name, ok and all(one.ok for one in seen.values()), measured, limit)


def _fetched(name: str, record: Mapping[str, Any], window: Window, sent: pl.DataFrame) -> Gate:
    """Every fetch of a web user began when its seed says, and the finished ones are complete in the capture."""
    fetches = record.get("fetches", ())
    due = window[1] - _LAST_S - record.get("start", 0.0)
    due_fetches = {at for at, _ in islice(arrivals(str(record.get("draw"))), len(fetches) + 1) if at <= due}
    begun = len(due_fetches & {fetch["at"] for fetch in fetches})
    ended = [fetch for fetch in fetches if fetch["fct_s"] is not None]
    mine = per_flow.select(sent, sport=record.get("sender_port")).group_by("dport").agg(pl.col("advance").sum())
    arrived = dict(mine.iter_rows())
    whole = sum(arrived.get(fetch["port"], 0) >= fetch["bytes"] for fetch in ended)
    measured = f"{begun} of {len(due_fetches)} fetches begun, {whole} of {len(ended)} ended ones in the capture"
    return gate(CODE, name, 0 < len(due_fetches) == begun and whole == len(ended), measured, "all")
