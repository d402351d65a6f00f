# SPDX-License-Identifier: Apache-2.0
"""Summaries of repeated runs: tables for a terminal, a page, and files for other programs.

All content comes from the scores of the runs; their options determine which runs belong together.
"""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

from markupsafe import Markup

from sojourn.hardware.machine.messages import printable
from sojourn.harness.report.grids import (
    DEMAND_MET,
    METRICS,
    PRIMARY,
    Grid,
    Row,
    alone_for,
    interval,
    labelled,
    number,
    value_text,
)
from sojourn.harness.report.headline import (
    CUT_OFFS,
    VictimOutcome,
    average_headline,
    average_outcomes,
    badges,
    headline,
    outcomes,
    sureness,
)
from sojourn.harness.report.html import write_page
from sojourn.harness.report.published_tables import services_table
from sojourn.harness.report.run_page import REPORT, ReportError
from sojourn.harness.report.svg import Dots, dot_plot
from sojourn.harness.store.loaded import CellRun, LoadedRun, VictimRun, load_run
from sojourn.harness.store.manifest import is_run
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.long_table import unit_of
from sojourn.scoring.schema.files import CELL
from sojourn.scoring.statistics.intervals import ENOUGH, LEVEL, POWER, RESAMPLES, SEED, Estimate, best_coverage
from sojourn.scoring.statistics.numbers import never_came
from sojourn.scoring.statistics.summary import ExperimentSummary, Figure, PairedContrast, summarise, summarise_cells

SUMMARY, TABLE = "summary.json", "summary.csv"
#: Measured values of a phase, in the order of their rows.
MEASURED = {
    "victim_mbps": METRICS["victim_mbps"],
    "contender_mbps": ("goodput of the contender", "Mbit/s"),
    "contender_up_mbps": ("goodput of its uploads", "Mbit/s"),
    "web_fct_p50_s": ("completion of its web flows, P50", "s"),
    "web_fct_p95_s": ("completion of its web flows, P95", "s"),
    "second_height": ("height of its video, mostly", "lines"),
    "second_stall_s": ("its video stalled", "s"),
    "call_down_loss": ("loss of its call, down", ""),
    "call_down_p99_ms": ("delay of its call down, P99", "ms"),
    "played_height": METRICS["played_height"],
    "mean_height": METRICS["mean_height"],
    "lowest_height": ("lowest picture", "lines"),
    "below_solo_s": ("picture below its height alone", "s"),
    "drops": ("drops of resolution", ""),
    "fps": METRICS["fps"],
    "stalls": ("stalls of 0.5 s or more", ""),
    "stall_s": ("stalled", "s"),
    "freezes": ("freezes (WebRTC)", ""),
    "freeze_s": ("frozen (WebRTC)", "s"),
    **{name: METRICS[name] for name in ("rtt_p50_ms", "ect1_rtt_p50_ms", "rtt_p99_ms", "ect1_rtt_p99_ms")},
    "frames_in_time": METRICS["frames_in_time"],
    "frame_p50_ms": ("camera to screen, P50", "ms"),
    "frame_p99_ms": METRICS["frame_p99_ms"],
}


@dataclass(frozen=True)
class Experiment:
    """Runs with the same options except seed and order, and their summary."""

    title: str
    runs: tuple[LoadedRun, ...]
    summary: ExperimentSummary
    names: tuple[str, ...]
    """The runs' names in the summary."""

    @property
    def victims(self) -> list[VictimRun]:
        """The runs with a victim: all of them, or none."""
        return [run for run in self.runs if isinstance(run, VictimRun)]

    @property
    def base(self) -> str:
        """Of what the figures without a contender are: of the victim alone, or of the whole cell."""
        return "alone" if self.victims else "whole cell"

    def labelled(self, label: str) -> str:
        """Return a metric's label with its probe named as in these runs."""
        return labelled(label, *(run.scores for run in self.victims))

    @property
    def void(self) -> dict[Path, list[str]]:
        """The reasons of invalid runs, by path."""
        void = self.summary.void
        return {run.path: void[name] for run, name in zip(self.runs, self.names, strict=True) if name in void}

    @property
    def service(self) -> str:
        """The victim's service; empty if unknown."""
        return self.runs[0].service

    @property
    def outcomes(self) -> list[VictimOutcome]:
        """The viewer's average outcome with every contender over the valid runs."""
        if len(self.summary.valid) == 1 and self.victims:
            return next(outcomes(run.scores) for run in self.victims if not run.reasons)
        return average_outcomes(self.summary)

    @property
    def headline(self) -> str:
        """The outcome of the valid runs, one sentence per contender; empty without valid runs."""
        if not self.victims:
            return cell_headline(self.runs)
        if len(self.summary.valid) == 1:
            return next(headline(run.scores, self.service) for run in self.victims if not run.reasons)
        return average_headline(self.summary, self.service)

    @property
    def phase_s(self) -> str:
        """The length of the contender phases, s."""
        lengths = {p["seconds"] for p in self.runs[0].options.get("phases", []) if p["contender"]}
        return " or ".join(f"{length:g}" for length in sorted(lengths)) or "?"


def label_of(metric: str) -> tuple[str, str]:
    """Return what a measured metric is called, and its unit: the path of the figure for a cell's."""
    return MEASURED.get(metric) or (metric, unit_of(metric))


def with_unit(metric: str) -> str:
    """Return what a measured metric is called, with its unit in brackets."""
    label, unit = label_of(metric)
    return f"{label} ({unit})" if unit else label


def find_runs(places: Sequence[Path], *, whole: bool = True) -> list[LoadedRun]:
    """Return the runs at `places`: runs, folders of runs, or folders of earlier summaries, for their runs.

    A copy of a run is not a repetition and is skipped. Raises ReportError if a place has no run, LoadError if a run has
    no scores, or with `whole` if any of its files was altered.
    """
    by_path: dict[Path, LoadedRun] = {}
    for place in places:
        if is_run(place):
            paths = [place]
        elif (place / SUMMARY).exists():
            paths = _summarised(place)
        else:
            paths = experiment_runs(place)
        if not paths:
            raise ReportError(f"{place}: no finished run in it; give a run or a folder of runs")
        runs = (load_run(path.resolve()) for path in paths)
        by_path |= {run.path: run.whole(REPORT) if whole else run for run in runs}
    once = {(run.manifest.run, run.manifest.created): run for _, run in sorted(by_path.items(), reverse=True)}
    return sorted(once.values(), key=lambda run: run.path)


def _summarised(folder: Path) -> list[Path]:
    """Return the runs of the summary in a folder. Raises ReportError."""
    try:
        return [folder / run["path"] for one in _json(folder / SUMMARY) for run in one["runs"]]
    except (LookupError, TypeError) as wrong:
        raise ReportError(f"{folder / SUMMARY}: not a summary of runs: {wrong!r}") from wrong


def experiment_runs(folder: Path) -> list[Path]:
    """Return the finished runs of experiments and of cells in a folder; other tests may keep runs without scores."""
    return [run for run in RunStore(folder).runs() if has_figures(run)]


def has_figures(run: Path) -> bool:
    """Return whether a run is one of an experiment or of a cell, by its specification."""
    return any((run / name).exists() for name in ("timeline.json", CELL))


def experiments(runs: Sequence[LoadedRun]) -> list[Experiment]:
    """Group runs into experiments, in the order of their first runs."""
    grouped: dict[str, list[LoadedRun]] = {}
    for run in runs:
        grouped.setdefault(json.dumps(run.definition, sort_keys=True), []).append(run)
    # Options that the name does not include distinguish runs with the same name.
    name = itemgetter("test", "cell")
    definitions = [json.loads(key) for key in grouped]
    called = distinct_names([run.path for run in runs])
    return [
        Experiment(
            "{}: {}".format(*name(one)) + differing(one, [other for other in definitions if name(other) == name(one)]),
            tuple(members),
            _summary({called[run.path]: run for run in members}),
            tuple(called[run.path] for run in members),
        )
        for one, members in zip(definitions, grouped.values(), strict=True)
    ]


def _summary(runs: Mapping[str, LoadedRun]) -> ExperimentSummary:
    """What runs of one experiment, by name, say together."""
    victims = {name: run.scores for name, run in runs.items() if isinstance(run, VictimRun)}
    if victims:
        return summarise(victims)
    cells = {name: run.scores for name, run in runs.items() if isinstance(run, CellRun) and not run.reasons}
    return summarise_cells(cells, {name: run.reasons for name, run in runs.items() if run.reasons})


def distinct_names(paths: Collection[Path]) -> dict[Path, str]:
    """Return a name per path: its last part, and for namesakes as many parts as needed to distinguish them.

    Two hosts that start the same cell in the same second use the same run name.
    """
    names: dict[Path, str] = {}
    every, depth = set(paths), 0
    while len(names) < len(every):
        depth += 1
        alike = Counter(path.parts[-depth:] for path in every)
        names = {p: "/".join(p.parts[-depth:]) for p in every if alike[p.parts[-depth:]] == 1} | names
    return names


def differing(one: Mapping[str, Any], alike: Sequence[Mapping[str, Any]]) -> str:
    """Return in brackets the options in which `one` differs from its namesakes; empty if there are none."""
    differences = [f"{name} {value}" for name, value in one.items() if any(other.get(name) != value for other in alike)]
    return f" ({'; '.join(differences)})" if differences else ""


def records(groups: Sequence[Experiment], folder: Path) -> list[dict[str, Any]]:
    """Return experiments as JSON-ready data for a summary in `folder`, with paths of runs relative to it."""
    return [
        {
            "title": one.title,
            "runs": [{"path": _relative(run.path, folder), "seed": run.seed} for run in one.runs],
            **one.summary.model_dump(mode="json"),
        }
        for one in groups
    ]


def write_summary(groups: Sequence[Experiment], folder: Path) -> Path:
    """Write page, table and data of experiments to `folder` and return the page's path. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SUMMARY).write_text(json.dumps(records(groups, folder), indent=1) + "\n")
    _write_table(groups, folder / TABLE)
    view = {
        "method": method(),
        "cut_offs": CUT_OFFS,
        "published": services_table((run.service, run.scores) for one in groups for run in one.victims),
        "experiments": [_content(one, folder) for one in groups],
        "files": [TABLE, SUMMARY],
    }
    return write_page("summary.html.j2", view, folder / REPORT)


def run_rows(one: Experiment, folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the table of an experiment's runs, for a page in `folder`."""
    rows = []
    for run, name in zip(one.runs, one.names, strict=True):
        reasons = one.summary.void.get(name)
        scores = run.scores if isinstance(run, VictimRun) else None
        text = headline(scores, run.service) if scores else cell_headline([run])
        order = ", then ".join(phase.name for phase in scores.phases if phase.contender) if scores else ""
        cells = [order, str("–" if run.seed is None else run.seed), text if reasons is None else "; ".join(reasons)]
        shown = badges(outcomes(scores)) if scores and reasons is None else []
        link = f"{_relative(run.path, folder)}/{REPORT}" if (run.path / REPORT).exists() or scores else ""
        rows.append({"name": name, "link": link, "void": reasons is not None, "cells": cells, "badges": shown})
    return rows


def cell_headline(runs: Sequence[LoadedRun]) -> str:
    """Return D_SS of each flow of a cell, the mean over its valid runs, and how sure that is; empty without any."""
    valid = [run for run in runs if isinstance(run, CellRun) and not run.reasons]
    if not valid:
        return ""
    rates: dict[str, list[float]] = {}
    for row in (row for run in valid for row in run.figures):
        rates.setdefault(row.metric, []).append(row.value)
    text = [
        f"{printable(name)} {number(fmean(given))}"
        for n, name in enumerate(valid[0].senders)
        if (given := rates.get(f"flows.{n}.d_ss_mbps"))
    ]
    return (f"D_SS in Mbit/s: {', '.join(text)}. " if text else "") + sureness(len(valid), None)


def _content(one: Experiment, folder: Path) -> dict[str, Any]:
    return {
        "title": one.title,
        **verdict_view(one),
        "grids": grids(one),
        "plots": [plot for figure in one.summary.measured for plot in _plot(one, figure, *label_of(figure.metric))],
        "harm_plots": [
            plot for figure in one.summary.harm for plot in _plot(one, figure, f"harm: {METRICS[figure.metric][0]}", "")
        ],
        "runs": run_rows(one, folder),
    }


def verdict_view(one: Experiment) -> dict[str, Any]:
    """Return an experiment's head on a page: badges, headline, and how reliable they are."""
    return {
        "state": f"{len(one.summary.valid)} valid",
        "bad": not one.summary.valid,
        "badges": badges(one.outcomes) if one.summary.valid else [],
        "headline": one.headline,
        "lines": lines(one),
    }


def lines(one: Experiment) -> list[str]:
    """Return what the runs of an experiment show, and how reliable it is, one line each."""
    summary, n = one.summary, len(one.summary.valid)
    sentences = [
        f"{n} of {len(one.runs)} runs are valid" + ("; figures exclude the invalid ones." if summary.void else ".")
    ]
    if 0 < n < ENOUGH:
        width = "one run has no interval"
        if n > 1:
            covered = f"covers the true value in at most {best_coverage(n):.0%} of such series"
            width = f"the interval of {n} runs is no wider than their spread and {covered}"
        sentences.append(f"Too few runs for a result: {width}. At least {ENOUGH} runs are needed.")
    sentences += _about_bar(summary)
    for contender in summary.contenders[1:]:
        for word, is_worse in (("worse", True), ("better", False)):
            names = [one.labelled(label_of(f.metric)[0]) for f in summary.measured if f.worse(contender) is is_worse]
            if names:
                sentences.append(f"Shown {word} with {contender} than with {summary.reference}: {'; '.join(names)}.")
    if (share := summary.fair_share_mbps) and (victim := summary.figure("victim_mbps")):
        goodputs = [
            f"{number(estimate.value)} with {name}" + (f" ({DEMAND_MET})" if victim.unlimited(name) else "")
            for name, estimate in victim.contended.items()
        ]
        solo = f"alone it takes {interval(victim.alone)}; " if victim.alone else ""
        sentences.append(f"Fair share of the victim: {interval(share)} Mbit/s; {solo}it gets {', '.join(goodputs)}.")
    return sentences


def _about_bar(summary: ExperimentSummary) -> Iterator[str]:
    """Yield a sentence on the bar set by the victim's own kind, in the primary metric."""
    own, harm = summary.own_kind, next((figure for figure in summary.harm if figure.primary), None)
    if own is None or harm is None:
        return
    if own not in summary.contenders:
        yield f"No bar: {own}, the victim's own congestion control, did not compete."
        return
    beyond = [f"{name} by {interval(less)}" for name, less in harm.beyond.items()]
    label, _ = METRICS[harm.metric]
    bar = f"Bar, the harm by {own}, the victim's own congestion control ({label}): {interval(harm.contended.get(own))}"
    yield bar + (f"; above the bar (below 0: below it): {', '.join(beyond)}." if beyond else ".")


def method() -> str:
    """Return how the intervals are computed."""
    return (
        f"In brackets: {LEVEL:.0%} interval over runs (expanded bootstrap percentile, {RESAMPLES} resamples, "
        f"seed {SEED}); without brackets, all runs are equal. p: paired t-test over the runs (sign test if "
        "undefined); except for the primary metric, corrected for the number of rows (Holm 1979); at most "
        f"{1 - LEVEL:.2g} where worse or better is shown. Detectable: the smallest true mean difference that this test "
        f"would detect with power {POWER:g} (alpha {1 - LEVEL:.2g}, uncorrected)."
    )


def grids(one: Experiment) -> list[Grid]:
    """Return the tables of an experiment: measured values of the contender phases, and the harm."""
    summary = one.summary
    if not summary.valid:
        return []
    measured = [(one.labelled(with_unit(figure.metric)), figure) for figure in summary.measured]
    if not one.victims:
        return [_grid("Mean over the runs (the median of what is infinite in one).", measured, summary, one.base)]
    harm = [(one.labelled(METRICS[figure.metric][0]), figure) for figure in summary.harm]
    caption = (
        "Mean over the runs (median for the lowest picture and for infinite values), contender phases of "
        f"{one.phase_s} s."
    )
    against = f"Harm against the baseline of the same run ({alone_for(summary.baseline_s)}without recovery time)"
    return [
        _grid(caption, measured, summary, one.base),
        _grid(f"{against}: 0 none, 1 the worst.", harm, summary),
    ]


def _grid(caption: str, figures: Sequence[tuple[str, Figure]], summary: ExperimentSummary, alone: str = "") -> Grid:
    """Return a table of figures; `alone` heads the column of those without a contender, empty for none."""
    others = summary.contenders[1:]
    heads = ["", *([alone] if alone else []), *(f"with {name}" for name in summary.contenders)]
    heads += [head for name in others for head in (f"{name} − {summary.reference}", "p", "detectable")]
    grid = Grid(caption, heads)
    for label, figure in figures:
        cells = [label + (PRIMARY if figure.primary else ""), *([figure_text(figure, summary)] if alone else [])]
        cells += [
            DEMAND_MET if not alone and figure.unlimited(name) else figure_text(figure, summary, name)
            for name in summary.contenders
        ]
        hurt = set()
        for name in others:
            contrast = figure.contrast.get(name)
            if figure.worse(name):
                hurt.add(len(cells))
            if figure.unlimited(name) and (not alone or figure.unlimited(summary.contenders[0])):
                cells += [DEMAND_MET, "–", "–"]
                continue
            cells += [interval(contrast), _p(figure, contrast), number(contrast.mde if contrast else None)]
        grid.rows.append(Row(cells, hurt=hurt))
    return grid


def figure_text(figure: Figure, summary: ExperimentSummary, contender: str | None = None) -> str:
    """Return a measured figure with its interval, alone or with a contender; in words if it is infinite."""

    def estimate(metric: str) -> Estimate | None:
        known = figure if metric == figure.metric else summary.figure(metric)
        if known is None:
            return None
        return known.contended.get(contender) if contender else known.alone

    def of(metric: str) -> float | None:
        figure_estimate = estimate(metric)
        return None if figure_estimate is None else figure_estimate.value

    shown = estimate(figure.metric)
    if shown is None or isfinite(shown.value):
        return interval(shown, never_came(figure.metric))
    return value_text(figure.metric, of)


def _p(figure: Figure, contrast: PairedContrast | None) -> str:
    """Return the p that decides a contrast."""
    if contrast is None:
        return "–"
    p = contrast.p if figure.primary else contrast.p_holm
    return "–" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _plot(one: Experiment, figure: Figure, label: str, unit: str) -> Iterator[dict[str, Any]]:
    """Yield one figure's runs as dots; none if nothing happened in any run."""
    summary = one.summary
    of = figure.contended.values() if one.victims else filter(None, [figure.alone])
    if not any(value for estimate in of for value in estimate.values):
        return
    rows = [(one.base, "c2", figure.alone)] if figure.alone else []
    rows += [
        (f"with {name}", f"c{n}", estimate)
        for n, name in enumerate(summary.contenders)
        if (estimate := figure.contended.get(name))
    ]
    less = [(f"{name} − {summary.reference}", "c3", estimate) for name, estimate in figure.contrast.items()]
    title = one.labelled(f"{label} ({unit})" if unit else label)
    never = never_came(figure.metric)
    drawn = [dot_plot([_dots(*row) for row in rows], title, never=never)]
    if less:
        drawn.append(dot_plot([_dots(*row) for row in less], f"{title}, differences", zero=True, never=never))
    yield {"title": title, "svg": Markup("".join(drawn))}


def _dots(label: str, kind: str, figure: Estimate) -> Dots:
    return Dots(label, kind, figure.values, figure.value, figure.low, figure.high)


def _write_table(groups: Sequence[Experiment], path: Path) -> None:
    """Write one line per figure, for other programs."""
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        heads = ["experiment", "kind", "metric", "contender", "statistic", "n", "value", "low", "high", "detectable"]
        heads += ["p", "p_holm"]
        out.writerow([*heads, "runs"])
        for one in groups:
            every = (("measured", [*one.summary.measured, *one.summary.further]), ("harm", one.summary.harm))
            for kind, figures in every:
                for figure in figures:
                    rows: list[tuple[str, Estimate]] = [(one.base, figure.alone)] if figure.alone else []
                    rows += list(figure.contended.items())
                    rows += [
                        (f"{name}-{one.summary.reference}", estimate) for name, estimate in figure.contrast.items()
                    ]
                    for who, estimate in rows:
                        values = [estimate.value, estimate.low, estimate.high]
                        values += [getattr(estimate, name, None) for name in ("mde", "p", "p_holm")]
                        given = ["" if value is None else f"{value:g}" for value in values]
                        runs = " ".join(f"{value:g}" for value in estimate.values)
                        out.writerow(
                            [one.title, kind, figure.metric, who, estimate.statistic, estimate.n, *given, runs]
                        )


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder.resolve())).as_posix()


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ReportError(f"{file}: cannot be read: {error}") from error
