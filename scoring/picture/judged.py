# SPDX-License-Identifier: Apache-2.0
"""The pictures that `sojourn quality` compared with the film: their file in a run, and their figures by phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sojourn.scoring.long_table import ALONE, QUALITY_METRICS, LongRow
from sojourn.scoring.schema.columns import Columns, TableColumn
from sojourn.scoring.schema.metric import HARM
from sojourn.scoring.schema.records import RecordError, read_judgement
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.statistics.harm import harm
from sojourn.scoring.statistics.numbers import nearest_rank

QUALITY = "quality.csv"
"""The file of a run that holds them, a row per picture."""
COLUMNS = Columns({
    "t": TableColumn(pl.Float64, "s from the start of the first phase at which it was first seen"),
    "phase": TableColumn(pl.String, "name of the phase"),
    "height": TableColumn(pl.Int64, "lines of the displayed rendition; null: a call"),
    "frame": TableColumn(pl.Int64, "its frame of the film, from 0; the film repeats"),
    "ssim": TableColumn(pl.Float64, "SSIM of its luma with the film's; 1: identical"),
    "vmaf": TableColumn(pl.Float64, "VMAF, 0 to 100; null: computed without libvmaf"),
})  # fmt: skip
HARMED = "ssim_mean", "vmaf_mean"
"""The figures on which harm is computed; of all of them, more is better."""
#: Bytes of the file: a day of a call has less than that.
_LARGEST = 256 << 20


@dataclass(frozen=True)
class PhaseQuality:
    """The quality of the pictures judged in a phase: mean and 5th percentile; None without pictures, or without VMAF.

    `harm` has that of the figures in HARMED, where a contender competes and the baseline has pictures.
    """

    phase: str
    contender: str | None
    pictures: int
    ssim_mean: float | None
    ssim_p5: float | None
    vmaf_mean: float | None
    vmaf_p5: float | None
    harm: Mapping[str, float]


def read_judged(run: Path) -> pl.DataFrame | None:
    """Return the judged pictures of a run by COLUMNS; None if none were stored.

    Raises RecordError for a damaged file.
    """
    judged = read_judgement(run / QUALITY, COLUMNS, _LARGEST)
    if judged is None:
        return None
    vmaf = pl.col("vmaf").is_null() | pl.col("vmaf").is_between(0, 101)
    sound = pl.all_horizontal(pl.col("t").is_finite(), pl.col("ssim").is_between(-1, 1), vmaf)
    if not judged.select(sound.fill_null(False).all()).item():
        raise RecordError(f"{QUALITY}: has a value that is no quality")
    return judged


def by_phase(judged: pl.DataFrame, scores: Scores) -> list[PhaseQuality]:
    """Return the quality of the baseline, if pictures in it were judged, then that of every phase."""
    windows = [pl.col("t").is_between(*window, closed="left") for window in scores.baseline_windows]
    alone = _of(ALONE, None, judged.filter(pl.any_horizontal(pl.lit(False), *windows)), None)
    baseline = alone if alone.pictures else None
    phases = [_of(it.name, it.contender, judged.filter(phase=it.name), baseline) for it in scores.phases]
    return [*([baseline] if baseline else []), *phases]


def rows_of(judged: pl.DataFrame, scores: Scores) -> Iterator[LongRow]:
    """Yield the figures as rows of the long table, as `sojourn.scoring.long_table.rows_of` those of the scores."""
    for row in by_phase(judged, scores):
        for metric in QUALITY_METRICS:
            if (value := getattr(row, metric)) is not None:
                yield LongRow(row.phase, row.contender, metric, value)
        for metric, value in row.harm.items():
            yield LongRow(row.phase, row.contender, f"{HARM}{metric}", value)


def _of(name: str, contender: str | None, judged: pl.DataFrame, baseline: PhaseQuality | None) -> PhaseQuality:
    """Return the figures of the pictures in `judged`."""
    ssim, vmaf = (mean_and_p5(judged[metric]) for metric in ("ssim", "vmaf"))
    harms = {}
    for metric, (value, _) in zip(HARMED, (ssim, vmaf), strict=True):
        solo = getattr(baseline, metric, None)
        if contender and solo is not None and value is not None:
            harms[metric] = harm(solo, value, "more")
    return PhaseQuality(name, contender, judged.height, *ssim, *vmaf, harm=harms)


def mean_and_p5(values: pl.Series) -> tuple[float | None, float | None]:
    """Return mean and nearest-rank 5th percentile; None without values."""
    known = values.drop_nulls().to_numpy()
    return (float(known.mean()), nearest_rank(known, 5)) if known.size else (None, None)
