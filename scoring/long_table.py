# SPDX-License-Identifier: Apache-2.0
"""Scores of any kind of run as one long table: a row a figure, by phase and metric, with its unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from sojourn.scoring.measured import is_measured
from sojourn.scoring.schema.cell_scores import declared, figures_of
from sojourn.scoring.schema.columns import Columns, TableColumn
from sojourn.scoring.schema.metric import HARM, Metric, unit_of, with_unit
from sojourn.scoring.schema.scores import METRICS as PHASE_METRICS
from sojourn.scoring.schema.scores import Harm, Metrics, Scores

ALONE = "alone"
"""The phase of a victim's baseline."""
STEP_FIGURES = (
    "mbps", "seconds", "before_height", "before_fps", "first_drop_s", "lowest_height", "lowest_fps", "recovery_s",
)  # fmt: skip
"""The figures of a step of the rate in a room."""
BELOW_SOLO = "below_solo_s"
"""Seconds of a phase with a picture lower than what the baseline mostly shows."""
COLUMNS = Columns({
    "experiment": TableColumn(pl.String, "test and cell of the run"),
    "run": TableColumn(pl.String, "name of the run"),
    "seed": TableColumn(pl.Int64, "its seed"),
    "phase": TableColumn(pl.String, "name of the phase; `alone`: the baseline; empty: the whole cell"),
    "contender": TableColumn(pl.String, "who competed; null: nobody, or a cell"),
    "metric": TableColumn(
        pl.String, "a field of the phases in `scores.json`, `harm.` and one, or a path in a cell's or of a room's party"
    ),
    "value": TableColumn(pl.Float64, "the figure; `inf`: the percentile falls on what was lost or never finished"),
    "unit": TableColumn(pl.String, "its unit; empty for shares and counts"),
})  # fmt: skip
#: What a phase has besides its figures, and a figure that is another's parts.
_NO_FIGURES = {"start", "end", "height_seconds"}
METRICS = PHASE_METRICS | {BELOW_SOLO: Metric("picture below its height alone", "less")}
"""The figures of a phase, with the one that also depends on the baseline."""
QUALITY_METRICS = {
    "pictures": Metric("pictures compared with the film"),
    "ssim_mean": Metric("SSIM of the pictures shown, mean", "more", harm=True),
    "ssim_p5": Metric("SSIM of the pictures shown, P5", "more"),
    "vmaf_mean": Metric("VMAF of the pictures shown, mean", "more", harm=True),
    "vmaf_p5": Metric("VMAF of the pictures shown, P5", "more"),
}
"""The figures of a phase that `sojourn quality` computes (`sojourn.scoring.picture.judged`)."""

SPEECH_METRICS = {
    "speech_segments": Metric("segments of speech spoken"),
    "speech_unheard": Metric("segments of speech never heard", "less"),
    "mos_lqo_mean": Metric("MOS-LQO of the speech spoken, mean"),
    "mos_lqo_spoken": Metric("MOS-LQO of the same speech by perfect sound, mean"),
    "mos_lqo_lost": Metric("MOS-LQO lost against perfect sound, mean", "less"),
}
"""Those that `sojourn quality --speech` computes, of what the client heard (`sojourn.scoring.sound.judged_speech`)."""


class LongRow(NamedTuple):
    """A figure of a run: in a phase, by metric; `contender` is None without one."""

    phase: str
    contender: str | None
    metric: str
    value: float

    @property
    def unit(self) -> str:
        """The unit of the figure."""
        return unit_of(self.metric)


def named(metric: str) -> tuple[str, Metric]:
    """Return the label of a metric in the table, and what it declares; its own name if nothing declares it."""
    if metric.startswith(HARM):
        label, harmed = named(metric.removeprefix(HARM))
        return f"harm: {label}", replace(harmed, better="less")
    if known := METRICS.get(metric) or QUALITY_METRICS.get(metric) or SPEECH_METRICS.get(metric):
        return known.label, known
    return declared(metric) or (metric, Metric(metric))


def label_of(metric: str) -> str:
    """Return the label of a metric in the table, with its unit in brackets."""
    return with_unit(named(metric)[0], unit_of(metric))


def rows_of(scores: Scores | Mapping[str, Any]) -> list[LongRow]:
    """Return the figures of the scores of a victim's run, or of the document of a cell's run; none of what is None."""
    if not isinstance(scores, Scores):
        every = figures_of(scores)
        return [LongRow("", None, metric, value) for metric, value in every if is_measured(scores, metric)]
    rows = [
        LongRow(phase.name, phase.contender, metric, value)
        for phase in scores.phases
        for metric, value in _figures(phase, scores.baseline)
    ]
    if scores.baseline:
        rows += [LongRow(ALONE, None, metric, value) for metric, value in _figures(scores.baseline, None)]
    return [*rows, *_of_harm(scores.harm), *_of_parties(scores)]


def frame(runs: Iterable[tuple[str, str, int | None, Iterable[LongRow]]]) -> pl.DataFrame:
    """Return the table of several runs, given by experiment, name, seed and rows, with the columns of COLUMNS."""
    rows = [(experiment, run, seed, *row, row.unit) for experiment, run, seed, given in runs for row in given]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def _of_harm(harms: Iterable[Harm], path: str = "") -> Iterator[LongRow]:
    yield from (LongRow(it.phase, it.contender, f"{path}{HARM}{it.metric}", it.harm) for it in harms)


def _of_parties(scores: Scores) -> Iterator[LongRow]:
    """Yield the figures of every party of a room; a step of the rate is in the phase that had begun last."""
    for one in scores.parties:
        path = f"parties.{one.party}."
        for phase in one.phases:
            figures = _figures(phase, None)
            yield from (LongRow(phase.name, phase.contender, f"{path}{name}", value) for name, value in figures)
        yield from _of_harm(one.harm, path)
        for number, step in enumerate(one.steps):
            of = next((phase for phase in reversed(one.phases) if phase.start <= step.t), None)
            for name in STEP_FIGURES:
                if of and (value := getattr(step, name)) is not None:
                    yield LongRow(of.name, of.contender, f"{path}steps.{number}.{name}", value)


def _figures(metrics: Metrics, baseline: Metrics | None) -> Iterator[tuple[str, float]]:
    for name in type(metrics).model_fields:
        value = getattr(metrics, name)
        if name not in _NO_FIGURES and isinstance(value, int | float):
            yield name, value
    if baseline and baseline.dominant_height is not None and metrics.height_seconds:
        yield BELOW_SOLO, sum(s for height, s in metrics.height_seconds.items() if height < baseline.dominant_height)
