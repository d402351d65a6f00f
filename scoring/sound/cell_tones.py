# SPDX-License-Identifier: Apache-2.0
"""Figures of the sound of a cell's call. Pure."""

from __future__ import annotations

from typing import Any

import polars as pl

from sojourn.scoring.schema.windows import Window
from sojourn.scoring.sound.ear import TONE_S, Sound
from sojourn.scoring.sound.neteq import COLUMNS, neteq_within
from sojourn.scoring.sound.summary import sound_fields

FIELDS = {
    "ear_p50_ms": 3, "ear_p95_ms": 3, "ear_in_time": 6, "ear_loss": 6, "ear_gap_share": 6, "r_factor": 2,
    "r_factor_wb": 2,
}  # fmt: skip
"""The fields of CallScores and their decimals."""
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

    `table` has the columns of TONES.
    """
    scores = []
    for talk in range(2):
        way = table.filter(pl.col("talk") == talk)
        every_ms = pl.int_ranges(0, round(TONE_S * 1e3))
        ear = way.drop_nulls("gap_ms").select("t_s", "gap_ms", ms=every_ms).explode("ms")
        sound = Sound(
            way.select(t="t_s", delay_ms="delay_ms"),
            ear.select(t=pl.col("t_s") + pl.col("ms") / 1e3, gap=pl.col("ms") < pl.col("gap_ms"), repeated=False),
        )
        fields = sound_fields(sound, None, [window])
        scores.append({name: round(fields[name], digits) for name, digits in FIELDS.items() if name in fields})
    return scores
