# SPDX-License-Identifier: Apache-2.0
"""``report.html`` of a matrix: ours beside the published figures, charts over the cells, a page with plots a cell."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from statistics import fmean, median
from typing import Any

from markupsafe import Markup
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from harness.matrix.cell import Cell
from harness.matrix.cell_page import COLOURS, cell_page
from harness.matrix.cell_run import Job, standing
from harness.matrix.matrix import Chart, Column, Matrix, cell_folder, figure, finished
from harness.report.html import write_page
from harness.report.svg import Bar, Points, bar_chart, ccdf_plot
from scoring.published import Comparison, Pair, compare, pair
from scoring.transport import completion_harm, pooled_ccdf

REPORT, TABLE, CELL = "report.html", "table.csv", "cell.html"
_MISSING = "–"


@dataclass
class Results:
    """The scores of every finished run of a matrix: cell → seed → scores."""

    matrix: Matrix
    folder: Path
    runs: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    paths: dict[str, dict[int, Path]] = field(default_factory=dict)
    left_out: int = 0
    """Finished runs of other inputs or other scorers, which are not comparable."""

    @property
    def cells(self) -> list[Cell]:
        """The cells with a finished run, in the matrix's order."""
        return [cell for cell in self.matrix.cells if cell.name in self.runs]

    def values(self, cell: str, metric: str) -> list[float]:
        """A figure of every seed that has it."""
        found = (figure(scores, metric) for scores in self.runs.get(cell, {}).values())
        return [value for value in found if value is not None]

    def comparisons(self) -> list[Comparison]:
        """Ours beside theirs, one for each metric that is published."""
        if not (reference := self.matrix.reference):
            return []
        metrics = {metric for figures in reference.published.values() for metric in figures}
        ours = {cell.name: {metric: self.values(cell.name, metric) for metric in metrics} for cell in self.cells}
        return compare(ours, reference.published, reference.tolerance)

    def pair(self, cell: str, metric: str) -> Pair | None:
        """A figure of a cell beside the published one; None when a side has none."""
        reference, values = self.matrix.reference, self.values(cell, metric)
        theirs = reference.published.get(cell, {}).get(metric) if reference else None
        if reference is None or theirs is None or not values:
            return None
        return pair(cell, values, theirs, reference.tolerance.get(metric))

    def correlations(self) -> list[tuple[str, bool | None]]:
        """What each correlation is, in a line, and whether it is met; None until all cells have run."""
        if not (reference := self.matrix.reference):
            return []
        found: list[tuple[str, bool | None]] = []
        for asked in reference.correlations:
            one = next(it for it in self.comparisons() if it.metric == asked.metric)
            whole = sum(asked.metric in reference.published.get(cell.name, ()) for cell in self.matrix.runnable)
            value = getattr(one, asked.kind)
            met = None if len(one.pairs) < whole else value is not None and value >= asked.least
            told = {None: f"asked of all {whole}", True: "met", False: "NOT met"}[met]
            name = {"spearman": "rank correlation", "pearson": "Pearson's correlation"}[asked.kind]
            head = _head(self.matrix, asked.metric)
            over = f"{name} {_number(value, 4)} over {len(one.pairs)} cells"
            found.append((f"{head}: {over}, at least {asked.least:g}: {told}", met))
        return found

    def contrasts(self) -> list[tuple[str, bool | None]]:
        """What each contrast is, in a line, and whether it holds; None until both its cells have run."""
        found: list[tuple[str, bool | None]] = []
        for it in self.matrix.contrasts:
            ours, theirs = (_mean(self.values(cell, it.metric)) for cell in (it.cell, it.beside))
            if ours is None or theirs is None or (it.kind == "ratio" and not theirs):
                found.append((f"{it.title}: not run", None))
                continue
            value = ours / theirs if it.kind == "ratio" else ours - theirs
            limits = {"at least": it.low, "at most": it.high}
            asked = [f"{bound} {limit:g}" for bound, limit in limits.items() if isfinite(limit)]
            met = it.low <= value <= it.high if asked else None
            told = [f"{it.title}: {_number(value, 2)}", *asked]
            found.append((", ".join(told) + {None: "", True: ": met", False: ": NOT met"}[met], met))
        return found

    def targets(self) -> list[tuple[str, bool | None]]:
        """What is told of all cells together, a line each, and whether it is as asked; None: not asked or not run."""
        return [*self.correlations(), *self.contrasts()]

    def missed(self) -> list[str]:
        """Those of the targets that are not as asked."""
        return [told for told, met in self.targets() if met is False]

    def broken(self) -> list[str]:
        """What runs do not meet, one line each."""
        return [
            f"{cell.name}, seed {seed}: {told}"
            for cell in self.cells
            for seed, scores in self.runs[cell.name].items()
            for expected in self.matrix.expectations
            if (told := expected.broken(cell, scores))
        ]


def results(matrix: Matrix, folder: Path, inputs: str) -> Results:
    """Read the scores of finished runs under ``folder``, with the harm to short flows and the backoff where
    they have a meaning.

    Only of runs of these ``inputs`` (``Job.inputs``) with the scores that this scorer makes: others are counted.
    """
    found = Results(matrix, folder)
    for cell, seed, run in finished(matrix, folder):
        if standing(Job(cell, seed, matrix.window_s, matrix.tail_s, inputs), run) != "done":
            found.left_out += 1
            continue
        found.runs.setdefault(cell.name, {})[seed] = json.loads((run / "scores.json").read_bytes())
        found.paths.setdefault(cell.name, {})[seed] = run
    for beside, solo in matrix.solo.items():
        for seed, scores in found.runs.get(beside, {}).items():
            if alone := found.runs.get(solo, {}).get(seed):
                scores["harm"] = completion_harm(alone.get("short", {}), scores.get("short", {}))
    for beside, without in matrix.without_call.items():
        for seed, scores in found.runs.get(beside, {}).items():
            if alone := found.runs.get(without, {}).get(seed):
                lost = alone["flows"][0]["steady_mbps"] - scores["flows"][0]["steady_mbps"]
                scores["backoff_mbps"] = round(lost, 4)
    return found


def write(matrix: Matrix, folder: Path, inputs: str) -> Path:
    """Write report, table and cell pages of the finished runs under ``folder``; return the report's path."""
    found = results(matrix, folder, inputs)
    for cell in found.cells:
        view = cell_page(matrix, cell, found.runs[cell.name], found.paths[cell.name], REPORT)
        write_page("cell.html.j2", view, cell_folder(folder, cell) / CELL)
    _write_table(found, folder / TABLE)
    return write_page("matrix.html.j2", _content(found), folder / REPORT)


def table(matrix: Matrix, folder: Path, inputs: str) -> Table:
    """Return the matrix's table for a terminal: the mean of the seeds, in brackets the published figure."""
    found = results(matrix, folder, inputs)
    shown = Table(title=matrix.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    shown.add_column("cell", overflow="fold")
    for column in matrix.columns:
        shown.add_column(column.head, justify="right")
    for cell in found.cells:
        texts = []
        for column in matrix.columns:
            beside = found.pair(cell.name, column.metric)
            text = _number(_mean(found.values(cell.name, column.metric)), column.digits)
            told = f"{text} ({_number(beside.theirs, column.digits)})" if beside else text
            texts.append(Text(told, "red" if beside and beside.agrees is False else ""))
        shown.add_row(cell.name, *texts)
    return shown


def summary(matrix: Matrix, folder: Path, inputs: str) -> list[str]:
    """Return the headline figures, one line each."""
    return _headlines(results(matrix, folder, inputs))


def _headlines(found: Results) -> list[str]:
    runs = sum(len(seeds) for seeds in found.runs.values())
    minutes = sum(cell.seconds * len(found.runs[cell.name]) for cell in found.cells) / 60
    lines = [f"{len(found.cells)} of {len(found.matrix.runnable)} cells, {runs} runs, {minutes:.0f} min of lab time"]
    for one in found.comparisons():
        head = _head(found.matrix, one.metric)
        if one.tolerance is not None and one.pairs:
            lines.append(
                f"{head}: {one.agreeing} of {len(one.pairs)} cells within {one.tolerance:.0%} of the published"
            )
    lines += [told for told, _ in found.targets()]
    if found.left_out:
        left = "runs of another kernel, guest, source or scoring are left out; run them to renew them"
        lines.append(f"{found.left_out} {left}")
    if found.matrix.expectations and runs:
        broken = len(found.broken())
        lines.append(f"expectations: {'all met' if not broken else f'not met {broken} times'}")
    return lines


def _content(found: Results) -> dict[str, Any]:
    matrix, comparisons, broken = found.matrix, found.comparisons(), found.broken()
    bad = bool(broken or found.missed())
    needs: dict[str, list[str]] = {}
    for cell in matrix.cells:
        if cell.needs and cell.name not in found.runs:
            needs.setdefault(cell.needs, []).append(cell.name)
    seeds = sorted({seed for runs in found.runs.values() for seed in runs})
    whole = len(found.cells) >= len(matrix.runnable)
    return {
        "title": matrix.title,
        "subtitle": matrix.source,
        "state": "not as expected" if bad else "complete" if whole else "in part",
        "bad": bad,
        "headlines": [*_headlines(found), *broken],
        "notes": matrix.notes,
        "reference": f"Published: {matrix.source}; {matrix.reference.csv}." if matrix.reference else "",
        "comparisons": [_comparison(matrix, one) for one in comparisons if one.pairs],
        "disagreeing": [
            {
                "cell": pair.cell,
                "link": _link(found, pair.cell),
                "head": _head(matrix, one.metric),
                "ours": _number(pair.ours, 2),
                "theirs": _number(pair.theirs, 2),
                "ratio": _number(pair.ratio, 3),
            }
            for one in comparisons
            for pair in one.disagreeing
        ],
        "charts": [drawn for chart in matrix.charts for drawn in _chart(found, chart)],
        "chart_note": "Thick ticks: the published figure. Thin lines: least to largest of the seeds."
        if matrix.reference
        else "Thin lines: least to largest of the seeds.",
        "caption": f"Mean of the seeds {', '.join(map(str, seeds))}"
        + (", least to largest beside it" if len(seeds) > 1 else "")
        + (". Red: further from the published figure than the tolerance." if comparisons else "."),
        "heads": ["cell", *_heads(found)],
        "rows": [
            {"name": cell.name, "link": _link(found, cell.name), "cells": list(_cells(found, cell.name))}
            for cell in found.cells
        ],
        "needs": list(needs.items()),
    }


def _published_columns(found: Results) -> set[str]:
    return {one.metric for one in found.comparisons() if one.pairs}


def _heads(found: Results) -> Iterator[str]:
    published = _published_columns(found)
    for column in found.matrix.columns:
        yield column.head
        if column.metric in published:
            yield "published"
            yield "ratio"


def _cells(found: Results, cell: str) -> Iterator[dict[str, str]]:
    published = _published_columns(found)
    for column in found.matrix.columns:
        values = found.values(cell, column.metric)
        spread = (
            f"{_number(min(values), column.digits)}–{_number(max(values), column.digits)}" if len(values) > 1 else ""
        )
        yield {"text": _number(_mean(values), column.digits), "kind": "", "spread": spread}
        if column.metric in published:
            beside = found.pair(cell, column.metric)
            kind = "hurt" if beside and beside.agrees is False else ""
            theirs = _number(beside.theirs, column.digits) if beside else _MISSING
            yield {"text": theirs, "kind": "theirs", "spread": ""}
            yield {"text": _number(beside.ratio, 3) if beside else _MISSING, "kind": kind, "spread": ""}


def _comparison(matrix: Matrix, one: Comparison) -> list[str]:
    ratios = [pair.ratio for pair in one.pairs if pair.ratio is not None]
    return [
        _head(matrix, one.metric),
        str(len(one.pairs)),
        _MISSING if one.tolerance is None else str(one.agreeing),
        _MISSING if one.tolerance is None else f"{one.tolerance:.0%}",
        _number(median(ratios) if ratios else None, 3),
        _number(one.spearman, 3),
        _number(one.pearson, 3),
    ]


def _chart(found: Results, chart: Chart) -> Iterator[dict[str, Any]]:
    return _ccdfs(found, chart) if chart.ccdf else _bars(found, chart)


def _bars(found: Results, chart: Chart) -> Iterator[dict[str, Any]]:
    groups = []
    for label, cell in chart.cells.items():
        bars = []
        for n, (name, metric) in enumerate(chart.series.items()):
            if values := found.values(cell, metric):
                beside, mean = found.pair(cell, metric), fmean(values)
                tip = f"{label}, {name}: {mean:.3g} {chart.unit}" + (f", published {beside.theirs:g}" if beside else "")
                theirs = beside.theirs if beside else None
                bars.append(Bar(f"c{n % 6}", mean, min(values), max(values), theirs, tip))
        if bars:
            groups.append((label, bars))
    if not groups:
        return
    key = [(name, COLOURS[n % 6]) for n, name in enumerate(chart.series)]
    svg = bar_chart(groups, chart.unit, chart.title)
    yield {"title": chart.title, "key": key, "svg": Markup(svg), "ccdf": False}


def _ccdfs(found: Results, chart: Chart) -> Iterator[dict[str, Any]]:
    """One chart for as many curves as there are colours; a curve is of all seeds."""
    curves: list[tuple[str, Points]] = []
    for label, cell in chart.cells.items():
        for name, metric in chart.series.items():
            probe = metric.removesuffix(".ccdf")
            told = [it for scores in found.runs.get(cell, {}).values() if "ccdf" in (it := _at(scores, probe) or {})]
            if told:
                curve = pooled_ccdf(told)
                points = list(zip(curve["ms"], curve["percent"], strict=True))
                curves.append((" ".join(filter(None, (name, label))), points))
    parts = [curves[n : n + len(COLOURS)] for n in range(0, len(curves), len(COLOURS))]
    for n, part in enumerate(parts, 1):
        title = chart.title + (f" ({n} of {len(parts)})" if len(parts) > 1 else "")
        key = [(name, colour) for (name, _), colour in zip(part, COLOURS, strict=False)]
        drawn = [(name, f"c{at}", points) for at, (name, points) in enumerate(part)]
        svg = ccdf_plot(drawn, title, axis=f"queue delay ({chart.unit})")
        yield {"title": title, "key": key, "svg": Markup(svg), "ccdf": True}


def _at(scores: Mapping[str, Any], path: str) -> Any:
    found: Any = scores
    for step in path.split("."):
        try:
            found = found[int(step)] if isinstance(found, list) else found[step]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return found


def _write_table(found: Results, path: Path) -> None:
    """One line a cell and metric: for other programs."""
    columns = _all_columns(found.matrix)
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["cell", "metric", "seeds", "mean", "min", "max", "published", "ratio", "within_tolerance"])
        for cell in found.cells:
            for column in columns:
                if values := found.values(cell.name, column.metric):
                    beside = found.pair(cell.name, column.metric)
                    theirs = ["", "", ""]
                    if beside:
                        ratio = "" if beside.ratio is None else f"{beside.ratio:.4f}"
                        agrees = "" if beside.agrees is None else str(beside.agrees).lower()
                        theirs = [f"{beside.theirs:g}", ratio, agrees]
                    told = [f"{x:.6g}" for x in (fmean(values), min(values), max(values))]
                    out.writerow([cell.name, column.metric, len(values), *told, *theirs])


def _all_columns(matrix: Matrix) -> Sequence[Column]:
    known = {column.metric for column in matrix.columns}
    published = matrix.reference.published.values() if matrix.reference else ()
    more = dict.fromkeys(metric for figures in published for metric in figures if metric not in known)
    return [*matrix.columns, *(Column(head=metric, metric=metric) for metric in more)]


def _head(matrix: Matrix, metric: str) -> str:
    return next((column.head for column in matrix.columns if column.metric == metric), metric)


def _link(found: Results, name: str) -> str:
    cell = next(cell for cell in found.matrix.cells if cell.name == name)
    return f"{cell_folder(Path(), cell).name}/{CELL}"


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _number(value: float | None, digits: int) -> str:
    return _MISSING if value is None else f"{value:.{digits}f}"
