# SPDX-License-Identifier: Apache-2.0
"""An online game: one-way delays of the server's ticks (down) and of the player's inputs (up), and their lateness.

The lateness of a packet is its one-way delay less the least one of the run in its direction: the path's own delay, with
any constant difference that remains between the two clocks. Lost packets are infinitely late. Jitter is the mean
absolute difference between the delays of consecutive packets (RFC 3393, RFC 5481 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from sojourn.scoring.packets import latency
from sojourn.scoring.schema.windows import Window
from sojourn.traffic.load import GAME

CLIENT, SERVER = "game-client.jsonl", "game-server.jsonl"
"""The packets that each end sent and received."""
DEADLINES_MS = (16, 50, 100)
"""A tick later than this is counted late: one picture at 60 Hz, three ticks, and the delay above which players of first
person shooters lose most (Claypool and Claypool, "Latency and Player Actions in Online Games", CACM 49(11), 2006)."""
_SCHEMA = {"t": pl.Float64, "delay_ms": pl.Float64}
#: Fields of PhaseScores by those of Metrics.
_COMPETING = {
    **{f"game_in_{deadline}ms": f"tick_in_{deadline}ms" for deadline in DEADLINES_MS},
    **{f"game_down_{of}": f"tick_{of}" for of in ("loss", "p99_ms")},
    **{f"game_up_{of}": f"input_{of}" for of in ("loss", "p99_ms")},
}
Lines = Sequence[Mapping[str, Any]]


class Game(NamedTuple):
    """Packets in order of sending: columns t (Unix s), delay_ms, late_ms, step_ms; null: lost.

    `step_ms` is the absolute difference from the delay of the packet before.
    """

    ticks: pl.DataFrame
    inputs: pl.DataFrame


def game_of(sessions: Iterable[tuple[Lines, Lines]], ahead_s: float = 0) -> Game:
    """Return the packets of a game from the lines of its client and server, session by session, in order of time.

    `ahead_s`: how far the server's clock was ahead of the client's.
    """
    ticks, inputs, ahead_ns = [], [], round(ahead_s * 1e9)
    for client, there in sessions:
        server = [{**line, "t_ns": line["t_ns"] - ahead_ns} for line in there] if ahead_ns else there
        ticks.append(_crossed(server, client))
        inputs.append(_crossed(client, server))
    return Game(_with_lateness(ticks), _with_lateness(inputs))


def _crossed(sender: Lines, receiver: Lines) -> pl.DataFrame:
    """Return columns t and delay_ms of the packets from one end to the other."""
    arrived: dict[int, int] = {}
    for line in receiver:
        if "received" in line:
            arrived.setdefault(line["received"], line["t_ns"])
    rows = [
        (line["t_ns"] / 1e9, (at - line["t_ns"]) / 1e6 if (at := arrived.get(line["sent"])) is not None else None)
        for line in sender
        if "sent" in line
    ]
    return pl.DataFrame(rows, _SCHEMA, orient="row")


def _with_lateness(sessions: Sequence[pl.DataFrame]) -> pl.DataFrame:
    delay = pl.col("delay_ms")
    parts = [part.with_columns(step_ms=delay.diff().abs()) for part in sessions]
    empty = pl.DataFrame([], {**_SCHEMA, "step_ms": pl.Float64})
    return pl.concat([empty, *parts]).with_columns(late_ms=delay - delay.min())


def game_fields(game: Game, windows: Sequence[Window]) -> dict[str, Any]:
    """Return the fields of Metrics of a game over all windows together."""
    fields: dict[str, Any] = {}
    for name, table in (("tick", game.ticks), ("input", game.inputs)):
        sent = latency.within(table, list(windows))
        if not sent.height:
            continue
        for percent in (50, 99):
            fields[f"{name}_p{percent}_ms"] = latency.percentile(sent, percent, "delay_ms")
        fields[f"{name}_jitter_ms"] = sent["step_ms"].mean()
        fields[f"{name}_loss"] = sent["delay_ms"].null_count() / sent.height
        for deadline in DEADLINES_MS if name == "tick" else DEADLINES_MS[1:2]:
            fields[f"{name}_in_{deadline}ms"] = (sent["late_ms"] <= deadline).sum() / sent.height
    return fields


def competing_fields(
    bulk: Sequence[Mapping[str, Any]], phase: str, window: Window, ahead_s: float = 0
) -> dict[str, Any]:
    """Return the fields of PhaseScores of a game that competes in a phase, inside its `window`.

    `bulk` are the records of all phases, whose packets together have the path's own delay. `ahead_s`: see `game_of`.
    """
    played = [record for record in bulk if record.get("contender") == GAME]
    if not any(record["phase"] == phase for record in played):
        return {}
    packets = [record.get("packets", {}) for record in played]
    sessions = ((ends.get("client", ()), ends.get("server", ())) for ends in packets)
    fields = game_fields(game_of(sessions, ahead_s), [window])
    return {own: fields[name] for own, name in _COMPETING.items() if name in fields}
