# SPDX-License-Identifier: Apache-2.0
"""Figures of the sound of a cell's call. Pure."""

from __future__ import annotations

from typing import Any

import polars as pl

from sojourn.scoring.packets import latency
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.sound.ear import TONE_S, Sound
from sojourn.scoring.sound.neteq import COLUMNS, neteq_within
from sojourn.scoring.sound.summary import sound_fields

FIELDS = {
    "ear_p50_ms": 3, "ear_p95_ms": 3, "ear_in_time": 6, "ear_loss": 6, "ear_gap_share": 6, "r_factor": 2,
    "r_factor_wb": 2,
}  # fmt: skip
"""The fields of CallScores and their decimals."""
_NO_EAR = pl.DataFrame(schema={"t": pl.Float64, "gap": pl.Boolean, "repeated": pl.Boolean})
NETEQ_FIELDS = {"neteq_buffer_ms": 3, "neteq_concealed_share": 6}


def neteq_scores(table: pl.DataFrame, window: Window) -> list[dict[str, Any]]:
    """Return the figures of NetEq down and up in a window (s of the cell), by their names in CallScores.

    `table` has the columns of NETEQ.
    """
    ways = (table.filter(pl.col("talk") == talk).rename({"t_s": "t", **COLUMNS}) for talk in range(2))
    by_way = (neteq_within(way, [window]) for way in ways)
    return [
        {name: round(value, digits) for name, digits in NETEQ_FIELDS.items() if (value := way[name]) is not None}
        for way in by_way
    ]


def tone_scores(table: pl.DataFrame, window: Window) -> list[dict[str, Any]]:
    """Return the figures of the sound down and up in a window (s of the cell), by their names in CallScores.

    `table` has the columns of TONES. Gaps are of the sound spoken in the window, as the other figures.
    """
    scores = []
    for talk in range(2):
        way = latency.within(table.filter(pl.col("talk") == talk).rename({"t_s": "t"}), [window])
        fields = sound_fields(Sound(way.select("t", "delay_ms"), _NO_EAR), None, [window])
        # In runs without the column ear_ms, a tone's gaps are those in as much of the listener's time as it lasts.
        ear = way.drop_nulls("gap_ms").select(pl.col("gap_ms").sum(), pl.col("ear_ms").fill_null(TONE_S * 1e3).sum())
        gap_ms, ear_ms = ear.row(0)
        if ear_ms:
            fields["ear_gap_share"] = gap_ms / ear_ms
        scores.append({name: round(fields[name], digits) for name, digits in FIELDS.items() if name in fields})
    return scores
