# SPDX-License-Identifier: Apache-2.0
"""`index.html` of a results folder: the harm in every queue with every contender, and links to the runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sojourn.bottleneck.units import format_rate, format_time
from sojourn.harness.report.experiments import Experiment, differing, experiments, has_figures
from sojourn.harness.report.grids import DEMAND_MET, Grid, labelled, queue
from sojourn.harness.report.headline import CUT_OFFS
from sojourn.harness.report.html import write_page
from sojourn.harness.report.published_tables import services_table
from sojourn.harness.report.repetitions import figure_text, grids, method, run_rows, verdict_view
from sojourn.harness.report.run_page import REPORT, ReportError
from sojourn.harness.store.loaded import LoadedRun, load_run
from sojourn.harness.store.manifest import PARTIAL, StoreError, is_run, read_manifest
from sojourn.harness.store.reasons import joined
from sojourn.harness.store.runs import run_folders
from sojourn.scoring.long_table import named
from sojourn.scoring.schema.scores import HARMED
from sojourn.scoring.statistics.intervals import ENOUGH, Estimate
from sojourn.scoring.statistics.summary import REFERENCE

INDEX = "index.html"
#: Options that the heads of rows and columns of the heat map show.
_HEAD, _COLUMNS = ("service", "rate_down_bps", "rtt_us"), ("cell", "qdisc_down", "qdisc_up", "box")
#: Opacity of harm 1: the figure stays readable on it, on paper and in dark mode.
_DEEPEST = 0.55


@dataclass(frozen=True)
class Left:
    """An excluded run: its directory, its state (invalid, not finished or unreadable), and why."""

    path: Path
    state: str
    reason: str


def write_index(folder: Path) -> Path:
    """Write `index.html` of the experiments with runs in `folder` and return its path.

    A run that cannot be read is listed with the reason, like an invalid one. Raises ReportError without any run.
    """
    runs, left = read_folder(folder)
    if not runs and not left:
        raise ReportError(
            f"{folder}: neither a run nor a folder with runs of experiments; give one of the two", code="not-a-run"
        )
    return write_index_of(folder, experiments(runs), left)


def write_index_of(folder: Path, groups: Sequence[Experiment], left: Sequence[Left]) -> Path:
    """Write `index.html` of the experiments read from `folder` and return its path."""
    return write_page("index.html.j2", _content(folder, groups, left), folder / INDEX)


def read_folder(folder: Path, *, whole: bool = False) -> tuple[list[LoadedRun], list[Left]]:
    """Return a folder's readable finished runs of experiments, and the unreadable or unfinished ones.

    With `whole`, a run with any altered file counts as unreadable.
    """
    runs, left = list[LoadedRun](), list[Left]()
    for path in run_folders(folder):
        try:
            if path.suffix == PARTIAL:
                left.append(_unfinished(path))
            elif has_figures(path):
                run = load_run(path)
                runs.append(run.whole(REPORT) if whole else run)
        except StoreError as error:
            left.append(Left(path, "unreadable", str(error)))
    return runs, left


def unfinished(folder: Path) -> list[Left]:
    """Return a folder's unfinished runs; a run with an unreadable manifest counts as unreadable."""
    left = list[Left]()
    for path in (run for run in run_folders(folder) if run.suffix == PARTIAL):
        try:
            left.append(_unfinished(path))
        except StoreError as error:
            left.append(Left(path, "unreadable", str(error)))
    return left


def _unfinished(run: Path) -> Left:
    return Left(run, "not finished", joined(read_manifest(run).reasons))


def void_runs(groups: Sequence[Experiment]) -> list[Left]:
    """Return the invalid runs of experiments, which are excluded from all figures."""
    return [Left(path, "invalid", "; ".join(reasons)) for one in groups for path, reasons in one.void.items()]


def _content(folder: Path, groups: Sequence[Experiment], left: Sequence[Left]) -> dict[str, Any]:
    out = [*void_runs(groups), *left]
    counts = {
        state: sum(run_left.state == state for run_left in out) for state in ("invalid", "not finished", "unreadable")
    }
    valid = sum(len(one.summary.valid) for one in groups)
    pages = {page.parent for page in folder.glob(f"*/{REPORT}")}
    return {
        "title": f"Results in {folder.resolve().name}",
        "counts": f"{valid + len(out)} runs of {len(groups)} experiment{'s' * (len(groups) != 1)}: {valid} valid",
        "left_counts": ", ".join(f"{count} {state}" for state, count in counts.items() if count),
        "maps": heat_maps(groups),
        "published": _published(groups),
        "experiments": [
            {
                "id": f"e{number}",
                "title": one.title,
                **verdict_view(one),
                "grids": grids(one),
                "runs": run_rows(one, folder),
            }
            for number, one in enumerate(groups)
        ],
        "left": [
            {
                "name": run_left.path.name,
                "link": f"{quote(run_left.path.name)}/{REPORT}" if (run_left.path / REPORT).exists() else "",
                "state": run_left.state,
                "reason": run_left.reason,
            }
            for run_left in out
        ],
        "others": [(page.name, f"{quote(page.name)}/{REPORT}") for page in sorted(pages) if not is_run(page)],
        "enough": ENOUGH,
        "cut_offs": CUT_OFFS,
        "method": method(),
    }


def heat_maps(groups: Sequence[Experiment]) -> list[dict[str, Any]]:
    """Return one table per metric of harm: one row per set of options, columns by queue and contender."""
    numbers = {id(one): number for number, one in enumerate(groups)}
    groups = [one for one in groups if one.victims]
    rows: dict[str, dict[str, Experiment]] = {}
    columns: dict[str, set[str]] = {}
    for one in groups:
        key = json.dumps({k: v for k, v in one.runs[0].definition.items() if k not in _COLUMNS}, sort_keys=True)
        rows.setdefault(key, {})[_queue(one)] = one
        columns.setdefault(_queue(one), set()).update(_contenders(one))
    ordered = {queue: sorted(columns[queue], key=lambda name: (name != REFERENCE, name)) for queue in sorted(columns)}
    heads = _row_heads([json.loads(key) for key in rows], [next(iter(row.values())) for row in rows.values()])
    maps = []
    figures = [figure for one in groups for figure in one.summary.harm]
    primary = {figure.metric for figure in figures if figure.primary}
    known = {figure.metric for figure in figures}
    for metric in sorted(known, key=lambda name: (name not in primary, list(HARMED).index(name))):
        label, _ = named(metric)
        table = []
        for head, by_queue in zip(heads, rows.values(), strict=True):
            cells = [
                _cell(by_queue.get(queue), name, metric, numbers) for queue, names in ordered.items() for name in names
            ]
            table.append({"head": head, "cells": cells})
        queues = [(queue, len(names)) for queue, names in ordered.items()]
        names = [name for given in ordered.values() for name in given]
        label = labelled(label, *(run.scores for one in groups for run in one.victims))
        maps.append({"id": metric, "label": label, "queues": queues, "contenders": names, "rows": table})
    return maps


def _cell(one: Experiment | None, contender: str, metric: str, numbers: Mapping[int, int]) -> dict[str, Any]:
    """Return a cell's content: the harm, its interval and the number of runs; empty if never run."""
    if one is None or contender not in _contenders(one):
        return {"text": "", "notes": [], "link": "", "style": "", "few": False}
    void = len(one.summary.void)
    figure = next((figure for figure in one.summary.harm if figure.metric == metric), None)
    harm = figure.contended.get(contender) if figure else None
    met = figure is not None and figure.unlimited(contender)
    notes = [_between(harm), _infinite(one, metric, contender)] if harm and not met else []
    notes += [f"n = {harm.n}"] if harm else []
    return {
        "text": DEMAND_MET if met else f"{harm.value:.2f}" if harm else "–" if one.summary.valid else "invalid",
        "notes": [*filter(None, notes), *([f"{void} invalid"] if void else [])],
        "link": f"#e{numbers[id(one)]}",
        "style": _shade(harm.value) if harm and not met else "",
        "few": harm is not None and harm.n < ENOUGH,
    }


def _between(harm: Estimate) -> str:
    return "" if harm.low is None or harm.high is None else f"{harm.low:.2f} to {harm.high:.2f}"


def _infinite(one: Experiment, metric: str, contender: str) -> str:
    """Return the value behind a harm if it is infinite: it distinguishes harms of 1."""
    measured = one.summary.figure(metric)
    contended = measured.contended.get(contender) if measured else None
    return figure_text(measured, one.summary, contender) if measured and contended and isinf(contended.value) else ""


def _shade(harm: float) -> str:
    """Return the shade: red for harm, blue for a benefit, deeper for larger figures."""
    colour = "209 36 47" if harm > 0 else "11 98 196"
    return f"background: rgb({colour} / {min(abs(harm), 1) * _DEEPEST:.2f})"


def _queue(one: Experiment) -> str:
    lab = one.victims[0].scores.lab
    same = lab.get("qdisc_down") == lab.get("qdisc_up")
    return queue(lab) if same else f"{queue(lab)} (up: {lab.get('qdisc_up')})"


def _contenders(one: Experiment) -> set[str]:
    return {phase.contender for run in one.victims for phase in run.scores.phases if phase.contender}


def _row_heads(definitions: Sequence[dict[str, Any]], first: Sequence[Experiment]) -> list[str]:
    """Return service, rate and round-trip time, and the options that distinguish otherwise equal rows."""
    plain = []
    for one, experiment in zip(definitions, first, strict=True):
        lab = experiment.victims[0].scores.lab
        rate, rtt_ms = lab.get("rate_down_bps"), lab.get("rtt_ms")
        known = [format_rate(round(rate))] if rate else []
        known += [] if rtt_ms is None else [format_time(round(rtt_ms * 1000))]
        plain.append(", ".join([one.get("service") or one["test"], *known]))
    rest = [{name: value for name, value in one.items() if name not in _HEAD} for one in definitions]
    return [
        head + differing(one, [other for said, other in zip(plain, rest, strict=True) if said == head])
        for head, one in zip(plain, rest, strict=True)
    ]


def _published(groups: Sequence[Experiment]) -> Grid:
    """Return the published figures, one row per experiment with such a service: experiments are never pooled."""
    tables = [services_table((run.service, run.scores) for run in one.victims) for one in groups]
    grid = next((table for table in tables if table.rows), Grid(""))
    return Grid(grid.caption, grid.heads, [row for table in tables for row in table.rows])
