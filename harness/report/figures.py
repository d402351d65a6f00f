# SPDX-License-Identifier: Apache-2.0
"""Figures for documents: a run's timeline and delays, and a metric over the runs of a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Literal, get_args

from sojourn.hardware.machine.messages import count_of, did_you_mean
from sojourn.harness.report import timeline
from sojourn.harness.report.experiments import Experiment, experiments, find_runs
from sojourn.harness.report.number_text import by_numbers
from sojourn.harness.report.palette import LOOKS, looks, who
from sojourn.harness.report.picture import PAGE, Style, standalone, write_picture
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.report.svg import Dots, ccdf_plot, estimate_plot
from sojourn.harness.store.loaded import load_victim_run, valid
from sojourn.scoring.schema.metric import HARM
from sojourn.scoring.statistics.summary import Figure
from sojourn.scoring.statistics.thresholds import successor
from sojourn.scoring.time_series import RunSeries, run_series

Kind = Literal["timeline", "ccdf", "box", "bar"]
StyleName = Literal["page", "paper"]
#: Kinds that show a metric over the runs of a folder.
_OVER_RUNS = ("box", "bar")
#: Curves of a paper that differ by dashes; those after them are drawn thicker.
_CURVES = 6
_INCH = 96.0  # px
_COLUMN, _PAGE = 3.3 * _INCH, 720.0
#: Width of a character that is wider than most, px.
_PER_CHARACTER = 6.6
_RULES = """
.plot .estimate { fill: currentColor; fill-opacity: .75 }
.plot .box { fill: currentColor; fill-opacity: .2; stroke: currentColor; stroke-width: 1.2 }
.plot .whisker, .plot .median { stroke: var(--ink); stroke-width: 1.2 }
.plot .median { stroke-width: 2 }
.plot .mean { fill: var(--ink) }
.plot .run { fill: currentColor }
"""
#: Black on any paper: curves differ by their dashes, areas by their grey.
_BLACK = """
.plot { font-size: 10px }
.plot text, .plot .panel, .plot .phase-name, .plot .entry text { fill: #000; font-weight: 400 }
.plot .grid { stroke: #ccc; stroke-width: .6 }
.plot .phase.contended { fill: #000; fill-opacity: .07 }
.plot .line { color: #000; stroke-width: 1.2 }
.plot .line.again { stroke-width: 2.4 }
.plot .line.faint { color: #999; stroke-width: .6 }
.plot .line.bold { stroke-width: 1.8 }
.plot .line.who-prague { stroke-dasharray: 7 2 2 2 2 2 }
.plot .line.quality { color: #000; stroke-width: 2 }
.plot .line.dashes-0 { stroke-dasharray: none }
.plot .line.dashes-1 { stroke-dasharray: 7 3 }
.plot .line.dashes-2 { stroke-dasharray: 1.5 2.5 }
.plot .line.dashes-3 { stroke-dasharray: 8 2.5 1.5 2.5 }
.plot .line.dashes-4 { stroke-dasharray: 3.5 2 }
.plot .line.dashes-5 { stroke-dasharray: 8 2.5 1.5 2.5 1.5 2.5 }
.plot .line.published { stroke-dasharray: 1.5 2.5 }
.plot .mark, .plot .mean { fill: #000 }
.plot .run { fill: #fff; stroke: #000; stroke-width: .6 }
.plot rect.stall, .plot .bar.who-stall { fill: #555 }
.plot rect.freeze, .plot .bar.who-freeze { fill: #aaa }
.plot .estimate { fill: #bbb; fill-opacity: 1; stroke: #000; stroke-width: .8 }
.plot .box { fill: #ddd; fill-opacity: 1; stroke: #000; stroke-width: .8 }
.plot .range, .plot .whisker, .plot .median { stroke: #000; stroke-width: .9 }
.plot .median { stroke-width: 1.8 }
"""
_BLACK += "\n".join(f".plot .bar.who-{name} {{ color: #000 }}" for name in LOOKS)
STYLES = {
    "page": Style(rules=_RULES),
    "paper": Style(rules=_RULES + _BLACK, ground=False, scale=600 / _INCH, points=72 / _INCH),
}
"""How figures look: on a page, or in a column of a paper (3.3 inches wide, black, without a background)."""


@dataclass(frozen=True, repr=False)
class Drawing:
    """A figure: `write` makes a file of it, and a notebook shows it."""

    svg: str
    style: Style = PAGE

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it; the suffix determines the format. Raises PictureError, OSError."""
        write_picture(self.svg, Path(path), self.style)

    def __repr__(self) -> str:
        label = re.search('aria-label="([^"]*)"', self.svg)
        return f"<drawing: {unescape(label[1])}>" if label else "<drawing>"

    def _repr_svg_(self) -> str:
        return standalone(self.svg, self.style.rules, self.style.ground)


def figure(
    place: str | os.PathLike[str], kind: Kind = "timeline", style: StyleName = "page", metric: str = ""
) -> Drawing:
    """Return a figure of a valid run (`timeline`, `ccdf`), or of the runs of a folder (`box`, `bar`).

    `ccdf` shows the round trips of the probes in every phase; `box` and `bar` show a metric (default: the harm in the
    primary one) with its interval over the runs. Raises ReportError, and LoadError as `sojourn.load` does.
    """
    for name, value, known in (("kind", kind, get_args(Kind)), ("style", style, get_args(StyleName))):
        if value not in known:
            raise ReportError(
                f"--{name} {value}: unknown; {did_you_mean(value, known) or 'known: ' + ', '.join(known)}",
                code="unknown-value",
            )
    if metric and kind not in _OVER_RUNS:
        raise ReportError(f"--metric applies to --kind={' and '.join(_OVER_RUNS)} only", code="conflict")
    return Drawing(_drawn(Path(place), kind, style == "paper", metric), STYLES[style])


def _drawn(place: Path, kind: Kind, column: bool, metric: str) -> str:
    if kind in _OVER_RUNS:
        return _over_runs(place, kind == "box", column, metric)
    run = valid(load_victim_run(place, "figure")).require_raw_files()
    if kind == "ccdf":
        return _round_trips(run_series(run.scores, place), place, column)
    return timeline.column_figure(run.scores, place, (_COLUMN, 230.0)) if column else timeline.figure(run.scores, place)


def _round_trips(view: RunSeries, run: Path, column: bool) -> str:
    """Return the CCDF of every probe in every phase with a contender, and alone."""
    given = [
        (f"{phase}, {probe}" if probe else phase, points)
        for probe, curves in view.ccdfs
        for phase, _, points in curves
        if points and phase != "unshaped"
    ]
    if not given:
        raise ReportError(f"{run}: no probe was recorded, so there is no delay to draw", code="missing")
    names = [name for name, _ in given]
    kinds = (
        [f"dashes-{n % _CURVES}{' again' * (n >= _CURVES)}" for n in range(len(given))] if column else _dashed(names)
    )
    curves = [(name, kind, points) for (name, points), kind in zip(given, kinds, strict=True)]
    size = (_COLUMN, 230.0) if column else (_PAGE, 420.0)
    return ccdf_plot(curves, "CCDF of the probes' round-trip times", upwards="share of probes above", size=size)


def _dashed(names: Sequence[str]) -> list[str]:
    """Return the classes of curves; of two of the victim alone, the second has dashes, since the first has dots."""
    return [kind.replace("who-alone dash-1", "who-alone dash-2") for kind in looks(names)]


def _over_runs(place: Path, boxes: bool, column: bool, metric: str) -> str:
    """Return a metric over the valid runs of every experiment, alone and with every contender."""
    # Runs have their time or their cell in their paths.
    every = sorted(experiments(find_runs([place])), key=lambda one: by_numbers(str(one.runs[0].path)))
    groups = [one for one in every if one.summary.valid]
    if not groups:
        raise ReportError(f"{place}: no valid run, so there is no figure to draw", code="invalid-run")
    metric = metric or next((HARM + one.summary.primary for one in groups if one.summary.primary), "")
    figures = [(one, it) for one in groups for it in one.figures() if it.metric == metric]
    if not figures:
        known = list(dict.fromkeys(it.metric for one in groups for it in one.figures()))
        hint = successor(metric, known) or did_you_mean(metric, known) or f"known: {', '.join(known)}"
        wrong = f"--metric {metric}: no run in {place} has it" if metric else "--metric: required for runs of cells"
        raise ReportError(f"{wrong}; {hint}", code="unknown-value")
    width = _COLUMN if column else _PAGE
    headings = (_heading(one, len(figures) == 1 and column) for one, _ in figures)
    rows = (list(_rows(one, it.figure, width)) for one, it in figures)
    drawn = list(zip((_elided(heading, width) for heading in headings), rows, strict=True))
    (_, first), *_ = figures
    return estimate_plot(drawn, first.label, first.name, boxes=boxes, width=width, never=first.never)


def _heading(one: Experiment, none: bool) -> str:
    """Return experiment and number of runs; empty if `none`, as a paper's caption names them."""
    count = len(one.summary.valid)
    return "" if none else f"{one.title.partition(': ')[2] or one.title}, {count_of(count, 'run')}"


def _elided(text: str, width: float) -> str:
    """Return a text whose words, such as names of a user's programs, fit half of a figure of `width` px."""
    most = int(width / 2 / _PER_CHARACTER) - len("with ")
    ends = most // 2
    return " ".join(word if len(word) <= most else f"{word[:ends]}…{word[-ends:]}" for word in text.split(" "))


def _rows(one: Experiment, figure: Figure, width: float) -> Iterator[Dots]:
    """Yield the estimates of a figure, alone and with every contender."""
    named = [(one.base, who("alone"), figure.alone)]
    named += [(f"with {name}", who(name), figure.contended.get(name)) for name in one.summary.contenders]
    for label, kind, it in named:
        if it:
            yield Dots(_elided(label, width), kind, it.values, it.value, it.low, it.high)
