# SPDX-License-Identifier: Apache-2.0
"""Scores of any kind of run as one long table: a row a figure, by phase and metric, with its unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import isnan
from typing import Any, NamedTuple

import polars as pl

from sojourn.scoring.schema.columns import Column, Columns
from sojourn.scoring.schema.scores import Metrics, Scores

ALONE = "alone"
"""The phase of a victim's baseline."""
HARM = "harm."
"""Begins the name of a metric of harm."""
BELOW_SOLO = "below_solo_s"
"""Seconds of a phase with a picture lower than what the baseline mostly shows."""
COLUMNS = Columns({
    "experiment": Column(pl.String, "test and cell of the run"),
    "run": Column(pl.String, "name of the run"),
    "seed": Column(pl.Int64, "its seed"),
    "phase": Column(pl.String, "name of the phase; `alone`: the baseline; empty: the whole cell"),
    "contender": Column(pl.String, "who competed; null: nobody, or a cell"),
    "metric": Column(pl.String, "a field of the phases in `scores.json`, `harm.` and one, or a path in a cell's"),
    "value": Column(pl.Float64, "the figure; `inf`: more was lost, or not finished, than the percentile leaves out"),
    "unit": Column(pl.String, "its unit; empty for shares and counts"),
})  # fmt: skip
#: By how the name of a metric ends.
_UNITS = {
    "_mbps": "Mbit/s", "_ms": "ms", "_s": "s", "_bytes": "bytes", "height": "lines", "fps": "frames/s",
}  # fmt: skip
#: What a phase has besides its figures, and a figure that is another's parts.
_NO_FIGURES = {"start", "end", "height_seconds"}
_DEEPEST = 6
_NAME = re.compile(r"[a-z0-9_]{1,40}")
#: What a list in a cell's scores has besides figures: numbers of its members, the path that was requested.
_SPECIFIED = {"flow", "probe", "rtt_ms", "start_s", "end_s", "rate_mbps"}


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


def unit_of(metric: str) -> str:
    """Return the unit of a metric by its name; empty for shares, counts and harm."""
    if metric.startswith(HARM):
        return ""
    return next((unit for end, unit in _UNITS.items() if metric.endswith(end)), "")


def rows_of(scores: Scores | Mapping[str, Any]) -> list[LongRow]:
    """Return the figures of the scores of a victim's run, or of the document of a cell's run; none of what is None."""
    if not isinstance(scores, Scores):
        return [LongRow("", None, metric, value) for metric, value in _leaves(scores, "")]
    rows = [
        LongRow(phase.name, phase.contender, metric, value)
        for phase in scores.phases
        for metric, value in _figures(phase, scores.baseline)
    ]
    if scores.baseline:
        rows += [LongRow(ALONE, None, metric, value) for metric, value in _figures(scores.baseline, None)]
    return rows + [LongRow(it.phase, it.contender, f"{HARM}{it.metric}", it.harm) for it in scores.harm]


def frame(runs: Iterable[tuple[str, str, int | None, Iterable[LongRow]]]) -> pl.DataFrame:
    """Return the table of several runs, given by experiment, name, seed and rows, with the columns of COLUMNS."""
    rows = [(experiment, run, seed, *row, row.unit) for experiment, run, seed, given in runs for row in given]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def _figures(metrics: Metrics, baseline: Metrics | None) -> Iterator[tuple[str, float]]:
    for name in type(metrics).model_fields:
        value = getattr(metrics, name)
        if name not in _NO_FIGURES and isinstance(value, int | float):
            yield name, value
    if baseline and baseline.dominant_height is not None and metrics.height_seconds:
        yield BELOW_SOLO, sum(s for height, s in metrics.height_seconds.items() if height < baseline.dominant_height)


def _leaves(node: Any, path: str) -> Iterator[tuple[str, float]]:
    """The numbers at or below a node of a cell's document by their dotted paths; series and curves are no figures."""
    if isinstance(node, bool) or path.count(".") > _DEEPEST:
        return
    if isinstance(node, int | float) or node == "Infinity":
        if path.rpartition(".")[2] not in _SPECIFIED and not isnan(value := float(node)):
            yield path, value
    elif isinstance(node, Mapping):
        for name, value in node.items():
            # `last` is one of the flows; a document may be somebody else's.
            if _NAME.fullmatch(str(name)) and (path or name != "last"):
                yield from _leaves(value, f"{path}.{name}" if path else str(name))
    elif isinstance(node, list) and all(isinstance(one, Mapping) for one in node):
        for number, one in enumerate(node):
            yield from _leaves(one, f"{path}.{number}")
