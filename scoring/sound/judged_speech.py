# SPDX-License-Identifier: Apache-2.0
"""The speech that `sojourn quality --speech` compared with what was spoken: its file in a run, its figures by phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sojourn.scoring.evidence import FAR
from sojourn.scoring.long_table import ALONE, SPEECH_METRICS, LongRow
from sojourn.scoring.schema.columns import Columns, TableColumn
from sojourn.scoring.schema.records import RecordError, read_judgement
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.sound import speech
from sojourn.scoring.statistics.numbers import nearest_rank

SPEECH = "speech.csv"
"""The file of a run that holds it, a row per segment and listener."""
CLIENT = "client"
COLUMNS = Columns({
    "t": TableColumn(pl.Float64, "s from the start of the first phase at which its first sound was spoken"),
    "seconds": TableColumn(pl.Float64, "from then to its last sound, s"),
    "phase": TableColumn(pl.String, "name of the phase in which all of it was spoken"),
    "listener": TableColumn(pl.String, "`client`, or `far`: the other end"),
    "segment": TableColumn(pl.Int64, "its number in the loop of the speech, from 0"),
    "delay_ms": TableColumn(pl.Float64, "from the microphone to the listener's ear, median; null: never heard"),
    "mos_lqo": TableColumn(pl.Float64, "MOS-LQO of ViSQOL's speech mode, 1 to 5; null: never heard"),
    "spoken": TableColumn(pl.Float64, "MOS-LQO of the segment compared with itself: that of perfect sound"),
})  # fmt: skip
UNHEARD_MOS = 1.0
"""MOS-LQO of a segment that was never heard: the worst there is."""
#: Bytes of the file: a week of a call has less than that.
_LARGEST = 64 << 20


@dataclass(frozen=True)
class PhaseSpeech:
    """What one end heard of the segments spoken in a phase; None if none were spoken.

    `speech_unheard` of the `speech_segments` were never heard: they have UNHEARD_MOS in the mean and the least of
    MOS-LQO, and an infinite delay in the median `delay_ms`. `mos_lqo_spoken` is the mean that the same segments have by
    perfect sound, and `mos_lqo_lost` how much more that is than the mean.
    """

    phase: str
    contender: str | None
    listener: str
    speech_segments: int
    speech_unheard: int
    mos_lqo_mean: float | None
    mos_lqo_least: float | None
    mos_lqo_spoken: float | None
    mos_lqo_lost: float | None
    delay_ms: float | None


def read_judged_speech(run: Path) -> pl.DataFrame | None:
    """Return the judged speech of a run by COLUMNS; None if none was stored. Raises RecordError for a damaged file."""
    judged = read_judgement(run / SPEECH, COLUMNS, _LARGEST)
    if judged is None:
        return None
    sane = pl.all_horizontal(
        pl.col("t").is_finite(),
        pl.col("seconds").is_between(0, 60),
        pl.col("phase").is_not_null(),
        pl.col("listener").is_in([CLIENT, FAR]),
        pl.col("segment").is_between(0, speech.SEGMENTS - 1),
        pl.col("delay_ms").is_null() | pl.col("delay_ms").is_between(0, 60_000),
        pl.col("mos_lqo").is_null() | pl.col("mos_lqo").is_between(1, 5),
        pl.col("mos_lqo").is_null() == pl.col("delay_ms").is_null(),
        pl.col("spoken").is_between(1, 5),
    )
    if not judged.select(sane.fill_null(False).all()).item() or judged.select("listener", "t").is_duplicated().any():
        raise RecordError(f"{SPEECH}: has a value that is no quality")
    return judged


def by_phase(judged: pl.DataFrame, scores: Scores) -> list[PhaseSpeech]:
    """Return what each end heard of the baseline, if segments were spoken in it, then of every phase."""
    inside = [
        (pl.col("t") >= start) & (pl.col("t") + pl.col("seconds") <= end) for start, end in scores.baseline_windows
    ]
    alone = judged.filter(pl.any_horizontal(pl.lit(False), *inside))
    rows = []
    for listener in (CLIENT, FAR):
        if alone.filter(listener=listener).height:
            rows.append(_of(ALONE, None, listener, alone))
        rows += [_of(it.name, it.contender, listener, judged.filter(phase=it.name)) for it in scores.phases]
    return rows


def rows_of(judged: pl.DataFrame, scores: Scores) -> Iterator[LongRow]:
    """Yield the client's figures as rows of the long table, as `sojourn.scoring.long_table.rows_of` those of scores."""
    for row in by_phase(judged, scores):
        for metric in SPEECH_METRICS:
            if row.listener == CLIENT and (value := getattr(row, metric)) is not None:
                yield LongRow(row.phase, row.contender, metric, value)


def _of(name: str, contender: str | None, listener: str, judged: pl.DataFrame) -> PhaseSpeech:
    """Return the figures of the segments in `judged` that this end listened to."""
    mine = judged.filter(listener=listener)
    lost = mine["mos_lqo"].null_count()
    mos, spoken = mine["mos_lqo"].fill_null(UNHEARD_MOS), mine["spoken"]
    return PhaseSpeech(
        name, contender, listener, mine.height, lost,
        mos_lqo_mean=mos.mean(),  # type: ignore[arg-type]
        mos_lqo_least=mos.min(),  # type: ignore[arg-type]
        mos_lqo_spoken=spoken.mean(),  # type: ignore[arg-type]
        mos_lqo_lost=(spoken - mos).mean(),  # type: ignore[arg-type]
        delay_ms=nearest_rank(mine["delay_ms"].drop_nulls(), 50, lost),
    )  # fmt: skip
