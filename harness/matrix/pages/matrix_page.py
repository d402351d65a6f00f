# SPDX-License-Identifier: Apache-2.0
"""`report.html` of a matrix: measured and published figures, charts over the cells, a page with plots per cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any

from markupsafe import Markup
from rich.text import Text

from sojourn.bottleneck.rig import EXACT, coverage
from sojourn.hardware.machine.files import replace_file
from sojourn.harness.matrix.cells.cell_run import rig_of
from sojourn.harness.matrix.matrix import Chart, Column, Matrix, Summary, at, figure
from sojourn.harness.matrix.pages.cell_page import ccdf_points, cell_page
from sojourn.harness.matrix.pages.interval_charts import interval_charts
from sojourn.harness.matrix.results import (
    FURTHEST,
    MISSING,
    Results,
    cell_folder,
    column_head,
    figure_text,
    furthest_text,
    left_out_text,
    mean,
    seeds_text,
)
from sojourn.harness.report.contender_names import display_name
from sojourn.harness.report.html import write_page
from sojourn.harness.report.palette import looks
from sojourn.harness.report.scheme_plot import Scheme, scheme_plot
from sojourn.harness.report.svg import (
    Bar,
    Dot,
    Line,
    Panel,
    Points,
    bar_chart,
    ccdf_plot,
    scatter_plot,
    time_plot,
)
from sojourn.harness.terminal import FittedTable
from sojourn.scoring.reference.published import PublishedComparison
from sojourn.scoring.schema.cell_scores import ProbeScores
from sojourn.scoring.schema.columns import FLOWS
from sojourn.scoring.statistics.numbers import formatted, never_came
from sojourn.scoring.transport.delays import pooled_ccdf
from sojourn.scoring.transport.rates import goodput_series

REPORT, TABLE, CELL = "report.html", "table.csv", "cell.html"
_THIN, _THEIRS = "thin", "who-published"  # classes in the style sheets
_MOST_CURVES = 6


def write(finished: Results) -> Path:
    """Write report, table and cell pages of finished runs into their folder; return the report's path."""
    folder = finished.folder
    for cell in finished.cells:
        view = cell_page(finished.matrix.title, cell, finished.runs[cell.name], finished.paths[cell.name], REPORT)
        write_page("cell.html.j2", view, cell_folder(folder, cell) / CELL)
    _write_table(finished, folder / TABLE)
    return write_page("matrix.html.j2", _content(finished), folder / REPORT)


def table(finished: Results, others: Mapping[str, Sequence[Mapping[str, Any]]] | None = None) -> FittedTable:
    """Return the matrix's table for a terminal: the mean of the seeds, in brackets the figure to compare it with.

    That is the mean of `others`, scores of other runs by cell, and without these the published one.
    """
    matrix = finished.matrix
    lines = [[Text("cell"), *(Text(column.head) for column in matrix.columns)]]
    for cell in finished.cells:
        texts = []
        for column in matrix.columns:
            pair = None if others else finished.pair(cell.name, column.metric)
            given = (figure(scores, column.metric) for scores in (others or {}).get(cell.name, ()))
            before = mean([value for value in given if value is not None])
            theirs = pair.theirs if pair else before
            text = figure_text(mean(finished.values(cell.name, column.metric)), column.digits, column.metric)
            if theirs is not None:
                text += f" ({figure_text(theirs, column.digits, column.metric)})"
            texts.append(Text(text, "red" if pair and pair.agrees is False else ""))
        lines.append([Text(cell.name), *texts])
    compared = "in brackets: the published figure; red: differs by more than the tolerance"
    if others:
        compared = "in brackets: the runs before"
    return FittedTable(Text(matrix.title, "bold"), lines, compared if others or finished.comparisons() else "")


def summary(finished: Results) -> list[str]:
    """Return the headline figures and their comparison with the published ones, one line each."""
    return [*finished.published_lines(), *_headlines(finished)]


def _headlines(finished: Results) -> list[str]:
    runs = sum(len(seeds) for seeds in finished.runs.values())
    minutes = sum(cell.seconds * len(finished.runs[cell.name]) for cell in finished.cells) / 60
    lines = [
        f"{len(finished.cells)} of {len(finished.matrix.runnable)} cells, {runs} runs, {minutes:.0f} min of lab time"
    ]
    lines += [line for line, _ in finished.targets()]
    if finished.left_out:
        left = "runs with another kernel, guest, source or scoring, or changed, are excluded; run them again"
        lines.append(f"{finished.left_out} {left}")
    if finished.matrix.expectations and runs:
        broken = len(finished.broken())
        met = "all passed" if not broken else f"{broken} failed: see {REPORT}"
        published = "; this says nothing about the published figures" if finished.comparisons() else ""
        lines.append(f"self-checks of this matrix: {met}{published}")
    return lines


def _agreement(matrix: Matrix, one: PublishedComparison) -> str:
    """Return in one sentence how a figure agrees with the published one."""
    head = f"{column_head(matrix, one.metric)}: "
    if one.tolerance:
        return head + f"{one.agreeing} of {len(one.pairs)} cells are within {one.tolerance} of the published figure"
    if one.median_log_ratio is None:
        return head + "no ratio to the published figure"
    return head + f"{exp(one.median_log_ratio):.2f} times the published figure (median of {len(one.pairs)} cells)"


def _about_rigs(finished: Results) -> Iterator[str]:
    """Yield what several seeds stand for: rigs, unless all runs have an exact one."""
    several = [run for runs in finished.paths.values() if len(runs) > 1 for run in runs.values()]
    if several:
        yield coverage(drawn=any(rig_of(run) != EXACT for run in several))


def _content(finished: Results) -> dict[str, Any]:
    matrix, comparisons, broken = finished.matrix, finished.comparisons(), finished.broken()
    bad = bool(broken or finished.missed())
    needs: dict[str, list[str]] = {}
    for cell in matrix.cells:
        if cell.needs and cell.name not in finished.runs:
            needs.setdefault(cell.needs, []).append(cell.name)
    seeds = sorted({seed for runs in finished.runs.values() for seed in runs})
    whole = len(finished.cells) >= len(matrix.runnable)
    return {
        "title": matrix.title,
        "subtitle": matrix.source,
        "state": "not as expected" if bad else "all cells run" if whole else "not all cells run",
        "bad": bad,
        "headlines": [
            *map(partial(_agreement, matrix), (one for one in comparisons if one.pairs)),
            *_headlines(finished),
            *_about_rigs(finished),
            *broken,
        ],
        "notes": matrix.notes,
        "reference": f"Published: {matrix.source}; {matrix.reference.csv}." if matrix.reference else "",
        "comparisons": [_comparison(matrix, one) for one in comparisons if one.pairs],
        "scatters": list(_scatters(finished, comparisons)),
        "disagreeing": [
            {
                "cell": pair.cell,
                "link": _link(finished, pair.cell),
                "head": column_head(matrix, one.metric),
                "ours": figure_text(pair.ours, 2),
                "theirs": figure_text(pair.theirs, 2),
                "ratio": figure_text(pair.ratio, 3),
            }
            for one in comparisons
            for pair in one.disagreeing
        ],
        "summaries": [drawn for one in matrix.summaries for drawn in _summary(finished, one)],
        "charts": [drawn for chart in matrix.charts for drawn in _chart(finished, chart)],
        "chart_note": "Thick ticks: the published figure. Thin lines: minimum to maximum of the seeds."
        if matrix.reference
        else "Thin lines: minimum to maximum of the seeds.",
        "caption": seeds_text(seeds)
        + (", minimum to maximum next to it" if len(seeds) > 1 else "")
        + (". Red: differs from the published figure by more than the tolerance." if comparisons else "."),
        "heads": ["cell", *_heads(finished)],
        "rows": [
            {"name": cell.name, "link": _link(finished, cell.name), "cells": list(_cells(finished, cell.name))}
            for cell in finished.cells
        ],
        "needs": list(needs.items()),
    }


def _published_columns(finished: Results) -> set[str]:
    return {one.metric for one in finished.comparisons() if one.pairs}


def _heads(finished: Results) -> Iterator[str]:
    published = _published_columns(finished)
    for column in finished.matrix.columns:
        yield column.head
        if column.metric in published:
            yield "published"
            yield "ratio"


def _cells(finished: Results, cell: str) -> Iterator[dict[str, str]]:
    published = _published_columns(finished)
    for column in finished.matrix.columns:
        values = finished.values(cell, column.metric)
        text = partial(figure_text, digits=column.digits, metric=column.metric)
        spread = f"{text(min(values))}–{text(max(values))}" if len(values) > 1 else ""
        yield {"text": text(mean(values)), "kind": "", "spread": spread}
        if column.metric in published:
            pair = finished.pair(cell, column.metric)
            kind = "hurt" if pair and pair.agrees is False else ""
            theirs = text(pair.theirs) if pair else MISSING
            yield {"text": theirs, "kind": "theirs", "spread": ""}
            yield {"text": figure_text(pair.ratio, 3) if pair else MISSING, "kind": kind, "spread": ""}


def _comparison(matrix: Matrix, one: PublishedComparison) -> list[str]:
    return [
        column_head(matrix, one.metric),
        f"{len(one.pairs)}{left_out_text(one)}",
        MISSING if one.tolerance is None else str(one.agreeing),
        str(one.tolerance or MISSING),
        figure_text(one.spearman, 3),
        figure_text(one.pearson, 3),
        figure_text(one.median_log_ratio, 3),
        figure_text(one.median_abs_log_ratio, 3),
        ", ".join(furthest_text(pair) for pair in one.furthest(FURTHEST)),
    ]


def _scatters(finished: Results, comparisons: Sequence[PublishedComparison]) -> Iterator[dict[str, Any]]:
    """Yield measured against published figures, one plot per metric."""
    for one in comparisons:
        dots = []
        for pair in one.pairs:
            if pair.log_ratio is not None:
                tip = f"{pair.cell}: {pair.ours:.4g}, published {pair.theirs:.6g}"
                kind = "hurt hollow" if pair.agrees is False else "who-other-1"
                dots.append(Dot(kind, pair.theirs, pair.ours, pair.low, pair.high, tip))
        if dots:
            head = column_head(finished.matrix, one.metric)
            axes = f"{head}, published", f"{head}, measured"
            svg = scatter_plot(dots, *axes, f"{head}: measured against the published")
            yield {"title": head + left_out_text(one), "svg": Markup(svg)}


def _chart(finished: Results, chart: Chart) -> Iterator[dict[str, Any]]:
    if chart.intervals:
        return interval_charts(finished, chart)
    draw = _ccdfs if chart.ccdf else _over_time if chart.over_time else _bars
    return draw(finished, chart)


def _bars(finished: Results, chart: Chart) -> Iterator[dict[str, Any]]:
    groups = []
    kinds = dict(zip(chart.series, looks(list(chart.series)), strict=True))
    for label, cell in chart.cells.items():
        bars = []
        for name, metric in chart.series.items():
            if values := finished.values(cell, metric):
                pair, mean = finished.pair(cell, metric), fmean(values)
                text = formatted(mean, ".3g", never := never_came(metric))
                shown = display_name(name)
                tip = f"{label}, {shown}: {text} {chart.unit}" + (
                    f", published {formatted(pair.theirs, '.6g', never)}" if pair else ""
                )
                theirs = pair.theirs if pair else None
                words = f"{shown} {text}".strip()
                bars.append(Bar(kinds[name], mean, min(values), max(values), theirs, tip, words))
        if bars:
            groups.append((label, bars))
    if not groups:
        return
    key = [(display_name(name), kind, "block") for name, kind in kinds.items()]
    svg = bar_chart(groups, chart.unit, chart.title)
    yield {"title": chart.title, "key": key, "svg": Markup(svg)}


def _over_time(finished: Results, chart: Chart) -> Iterator[dict[str, Any]]:
    """Yield one panel per cell over the same time: goodput of each second, a line per seed, and the published one."""
    panels, longest = [], 0.0
    kinds = looks(list(chart.series))
    for label, name in chart.cells.items():
        cell = next((cell for cell in finished.cells if cell.name == name), None)
        if not cell:
            continue
        lines: list[Line] = []
        if theirs := chart.published.get(label):
            lines.append(Line(_THEIRS, theirs))
        for run in finished.paths[name].values():
            flows = FLOWS.read(run / "flows.csv")
            for n, metric in enumerate(chart.series.values()):
                at = int(metric.removeprefix("flows."))
                flow = cell.flows[at]
                rates = goodput_series(flows, at, flow.start_s, flow.stop_s or cell.seconds)
                lines.append(Line(kinds[n], rates))
        top = max(y for line in lines for _, y in line.points if y is not None)
        panels.append(Panel(f"{label} ({chart.unit})", 90, top * 1.05, lines=lines))
        longest = max(longest, cell.seconds)
    if panels:
        key = [(display_name(name) or "Sojourn", kind) for name, kind in zip(chart.series, kinds, strict=True)]
        key += [("published", _THEIRS)] if chart.published else []
        svg = time_plot(panels, [("", "solo", 0, longest)], chart.title, axis="time (s)")
        yield {"title": chart.title, "key": key, "svg": Markup(svg)}


def _ccdfs(finished: Results, chart: Chart) -> Iterator[dict[str, Any]]:
    """Yield one chart per `_MOST_CURVES` curves; a curve pools all seeds. Published ones are thin dots."""
    curves: list[tuple[str, Points | None, Points | None]] = []
    for label, cell in chart.cells.items():
        for name, metric in chart.series.items():
            probe = metric.removesuffix(".ccdf")
            if mine := _pooled(finished, cell, probe):
                curves.append((" ".join(filter(None, (display_name(name), label))), mine, chart.published.get(label)))
    if curves:  # published ones alone are not a result
        curves += [(name, None, theirs) for name, theirs in chart.published.items() if name not in chart.cells]
    parts = [curves[n : n + _MOST_CURVES] for n in range(0, len(curves), _MOST_CURVES)]
    for n, part in enumerate(parts, 1):
        title = chart.title + (f" ({n} of {len(parts)})" if len(parts) > 1 else "")
        drawn: list[tuple[str, str, Points]] = []
        for look, (name, mine, theirs) in zip(looks([name for name, *_ in part]), part, strict=True):
            if mine is not None:
                drawn.append((name, look, mine))
            if theirs is not None:
                drawn.append((f"{name}, published", f"{look.split()[0]} {_THIN}", theirs))
        key = [(name, kind) for name, kind, _ in drawn]
        svg = ccdf_plot(drawn, title, axis=f"queue delay ({chart.unit})")
        yield {"title": title, "key": key, "svg": Markup(svg)}


def _pooled(finished: Results, cell: str, probe: str) -> Points | None:
    """Return the CCDF of a cell's probe over all seeds; None if there is none."""
    seeds = finished.runs.get(cell, {}).values()
    curves = [scored for scores in seeds if "ccdf" in (scored := at(scores, probe) or {})]
    return ccdf_points(pooled_ccdf([ProbeScores.model_validate(it) for it in curves]).model_dump()) if curves else None


def _summary(finished: Results, summary: Summary) -> Iterator[dict[str, Any]]:
    """Yield the mean over the seeds of each scheme that has run, with the published ones."""
    schemes = []
    for name, cell in summary.cells.items():
        mbps, delay_ms = (mean(finished.values(cell, metric)) for metric in (summary.mbps, summary.delay_ms))
        if mbps is not None and delay_ms:
            tip = f"{name}: {mbps:.3g} Mbit/s, {formatted(delay_ms, '.4g')} ms"
            schemes.append(Scheme(name, "who-other-1", delay_ms, mbps, tip))
    if not schemes:  # published ones alone are not a result
        return
    for name, (mbps, delay_ms) in summary.published.items():
        tip = f"{name}, published: {mbps:.3g} Mbit/s, {delay_ms:.4g} ms"
        schemes.append(Scheme(name, "who-other-2 hollow", delay_ms, mbps, tip))
    key = [("Sojourn", "who-other-1", "block")]
    key += [("published", "who-other-2", "block")] if summary.published else []
    svg = scheme_plot(schemes, "95th percentile of one-way delay (ms)", "throughput (Mbit/s)", summary.title)
    yield {"title": summary.title, "key": key, "svg": Markup(svg)}


def _write_table(finished: Results, path: Path) -> None:
    """Write one line per cell and metric, for other programs."""
    columns = _all_columns(finished.matrix)
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    out.writerow(["cell", "metric", "seeds", "mean", "min", "max", "published", "ratio", "within_tolerance"])
    for cell in finished.cells:
        for column in columns:
            if values := finished.values(cell.name, column.metric):
                pair = finished.pair(cell.name, column.metric)
                theirs = ["", "", ""]
                if pair:
                    ratio = "" if pair.ratio is None else f"{pair.ratio:.4f}"
                    agrees = "" if pair.agrees is None else str(pair.agrees).lower()
                    theirs = [f"{pair.theirs:g}", ratio, agrees]
                figures = [f"{x:.6g}" for x in (fmean(values), min(values), max(values))]
                out.writerow([cell.name, column.metric, len(values), *figures, *theirs])
    replace_file(path, file.getvalue().encode(), mode=0o644)


def _all_columns(matrix: Matrix) -> Sequence[Column]:
    known = {column.metric for column in matrix.columns}
    published = matrix.reference.published.values() if matrix.reference else ()
    more = dict.fromkeys(metric for figures in published for metric in figures if metric not in known)
    return [*matrix.columns, *(Column(head=metric, metric=metric) for metric in more)]


def _link(finished: Results, name: str) -> str:
    cell = next(cell for cell in finished.matrix.cells if cell.name == name)
    return f"{cell_folder(Path(), cell).name}/{CELL}"
