# SPDX-License-Identifier: Apache-2.0
"""Summaries of repeated runs: tables for a terminal, a page, and files for other programs.

All content comes from the scores of the runs; their options determine which runs belong together.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from sojourn.bottleneck.rig import coverage
from sojourn.hardware.machine.files import replace_file
from sojourn.hardware.machine.messages import count_of
from sojourn.harness.report.experiments import SUMMARY, Experiment, ExperimentFigure, answers, cell_headline
from sojourn.harness.report.grids import DEMAND_MET, PRIMARY, Grid, Row, alone_for
from sojourn.harness.report.headline import CUT_OFFS, badges, headline, outcomes
from sojourn.harness.report.heat_map import HarmField, heat_maps
from sojourn.harness.report.html import write_page
from sojourn.harness.report.number_text import figure_text, interval, number, p_text
from sojourn.harness.report.overview import overview
from sojourn.harness.report.palette import who
from sojourn.harness.report.published_tables import services_table
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.report.svg import Dots, dot_plot
from sojourn.harness.store.loaded import VictimRun
from sojourn.harness.store.manifest import REPORT, is_run, run_folders
from sojourn.scoring.long_table import named
from sojourn.scoring.statistics.intervals import ENOUGH, LEVEL, POWER, RESAMPLES, SEED, Estimate, best_coverage
from sojourn.scoring.statistics.summary import ExperimentSummary, Figure, PairedContrast
from sojourn.traffic.load import CALL, GAME, parse_load

TABLE = "summary.csv"
INDEX = "index.html"
"""The page of all runs of a folder."""
#: Cells of a row in which a contender did nothing.
_NOTHING = {"–", "0", DEMAND_MET}
#: What a rig does not vary in a run with a victim, unlike in a cell.
_COMMON_START = "In simulated time, player, contenders and probes start together: no rig moves one against another."
#: Experiments above which a page opens with the map of harm, and folds the list of experiments.
_MANY = 12


def records(groups: Sequence[Experiment], folder: Path) -> list[dict[str, Any]]:
    """Return experiments as JSON-ready data for a summary in `folder`, with paths of runs relative to it."""
    return [
        {
            "title": one.title,
            "runs": [{"path": _relative(run.path, folder), "seed": run.seed} for run in one.runs],
            "duplicates": [
                {"path": _relative(it.run.path, folder), "seed": it.run.seed, "of": it.of} for it in one.duplicates
            ],
            **one.summary.model_dump(mode="json"),
        }
        for one in groups
    ]


def write_summary(
    groups: Sequence[Experiment], folder: Path, unreadable: Mapping[Path, str] = MappingProxyType({})
) -> Path:
    """Write page, table and data of experiments to `folder` and return the page's path.

    The page lists the `unreadable` runs, with the reasons. Raises ReportError, OSError.
    """
    if folder.exists() and (is_run(folder) or run_folders(folder)):
        raise ReportError(
            f"{folder}: has runs; a summary in it would replace their page; give another folder, such as "
            f"--output={folder / 'summary'}",
            code="conflict",
        )
    folder.mkdir(parents=True, exist_ok=True)
    if folder.is_symlink():  # of a results folder that somebody else made
        raise NotADirectoryError(errno.ENOTDIR, "is a link; remove it", str(folder))
    replace_file(folder / SUMMARY, (json.dumps(records(groups, folder), indent=1) + "\n").encode())
    _write_table(groups, folder / TABLE)
    view = experiments_view(groups, folder)
    for one, shown in zip(groups, view["experiments"], strict=True):
        shown["plots"] = [plot for it in one.figures() for plot in _plot(one, it)]
    title = "Harm over repeated runs" if any(one.victims for one in groups) else "Repeated runs"
    if unreadable:
        view["left_counts"] = f"{len(unreadable)} unreadable"
        view["left"] = [
            {"name": _relative(path, folder), "link": "", "state": "unreadable", "reason": why}
            for path, why in unreadable.items()
        ]
    view |= {"title": title, "up": _index(groups, folder), "files": [TABLE, SUMMARY]}
    return write_page("index.html.j2", view, folder / REPORT)


def experiments_view(groups: Sequence[Experiment], folder: Path) -> dict[str, Any]:
    """Return what pages of experiments in `folder` have in common: the answer first, then maps and experiments."""
    field = HarmField(groups)
    maps, rows = heat_maps(field), overview(field, folder)
    runs, valid = sum(len(one.runs) for one in groups), sum(len(one.summary.valid) for one in groups)
    return {
        "answers": answers(groups),
        "counts": f"{counted(runs, groups)}: {valid} valid",
        "rows": rows,
        "pictures": any(row.picture for row in rows),
        "maps": maps,
        "swept": any(table.caption for one in maps for table in one.tables) or len(groups) > _MANY,
        "published": _published(groups),
        "experiments": [
            {
                "id": f"e{number}",
                "title": one.title,
                **verdict_view(one),
                "grids": grids(one),
                "runs": run_rows(one, folder),
                "plots": [],
            }
            for number, one in enumerate(groups)
        ],
        "many": len(groups) > _MANY,
        "enough": ENOUGH,
        "cut_offs": CUT_OFFS,
        "method": method(),
        "up": "",
        "left_counts": "",
        "left": [],
        "others": [],
        "files": [],
    }


def counted(runs: int, groups: Sequence[Experiment]) -> str:
    """Return a number of runs of experiments in words."""
    return count_of(runs, "run") + (f" of {count_of(len(groups), 'experiment')}" if groups else "")


def _published(groups: Sequence[Experiment]) -> Grid:
    """Return the published figures, one row per experiment with such a service: experiments are never pooled."""
    tables = [services_table((run.service, run.scores) for run in one.victims) for one in groups]
    grid = next((table for table in tables if table.rows), Grid(""))
    return Grid(grid.caption, grid.heads, [row for table in tables for row in table.rows])


def _index(groups: Sequence[Experiment], folder: Path) -> str:
    """Return the index of the runs' folder, relative to a page in `folder`; empty if there is none."""
    results = groups[0].runs[0].path.parent if groups else folder
    # A session writes the index of its folder after its summary.
    there = folder.resolve().parent == results.resolve() or (results / INDEX).exists()
    return quote(_relative(results / INDEX, folder)) if there else ""


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
        link = f"{quote(_relative(run.path, folder))}/{REPORT}" if (run.path / REPORT).exists() or scores else ""
        rows.append({"name": name, "link": link, "void": reasons is not None, "cells": cells, "badges": shown})
    return rows


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
        f"{n} of {count_of(runs := len(one.runs), 'run')} {'is' if 1 in (n, runs) else 'are'} valid"
        + ("; figures exclude the invalid ones." if summary.void else ".")
    ]
    sentences += [f"{it.name}: {it.reason}." for it in one.duplicates]
    if 0 < n < ENOUGH:
        width = "one run has no interval"
        if n > 1:
            covered = f"covers the true value in at most {best_coverage(n):.0%} of such series"
            width = f"the interval of {n} runs is no wider than their spread and {covered}"
        sentences.append(f"Too few runs for a result: {width}. At least {ENOUGH} runs are needed.")
    if n > 1:
        sentences.append(coverage(drawn=one.drawn))
        if one.victims and one.drawn and one.service != GAME:  # a game's packets have a phase per seed
            sentences.append(_COMMON_START)
    sentences += [*_about_order(one), *_about_bar(summary)]
    # The harm of all others follows from what was measured; the primary one's has a least relevant size of its own.
    figures = [it for it in one.figures("harm", "measured") if it.family == "measured" or it.figure.primary]
    for contender in summary.contenders[1:]:
        for word, is_worse in (("worse", True), ("better", False)):
            names = [it.name for it in figures if it.figure.worse(contender) is is_worse]
            if names:
                sentences.append(f"Shown {word} with {contender} than with {summary.reference}: {'; '.join(names)}.")
    victim = summary.figure("victim_mbps")
    if (share := summary.fair_share_mbps) and victim:
        goodputs = [
            f"{number(estimate.value)} with {name}" + (f" ({DEMAND_MET})" if victim.unlimited(name) else "")
            for name, estimate in victim.contended.items()
            if _one_download(name)
        ]
        solo = f"alone it takes {interval(victim.alone)}; " if victim.alone else ""
        if goodputs:
            against = f"Fair share of the victim against one flow: {interval(share)} Mbit/s"
            sentences.append(f"{against}; {solo}it gets {', '.join(goodputs)}.")
    return sentences


def _one_download(contender: str) -> bool:
    """Whether a load is one bulk flow to the client; False for one that this version does not know."""
    try:
        load = parse_load(contender)
    except ValueError:
        return False
    return [(it.one_flow, it.up) for it in load] == [(True, False)]


def _about_order(one: Experiment) -> Iterator[str]:
    """Yield a sentence if one of two contenders came first in more valid runs than the other, or if that matters."""
    valid = [run.scores for run in one.victims if not run.reasons]
    first = Counter(next((phase.contender for phase in scores.phases if phase.contender), None) for scores in valid)
    counts = {name: first[name] for name in one.summary.contenders}
    if len(counts) == 2 and len(valid) > 1 and len(set(counts.values())) > 1:
        texts = " and ".join(f"{name} in {count}" for name, count in counts.items())
        yield f"The order is not balanced: first came {texts} of {len(valid)} runs; repeat an even number of times."
    harm, reference = one.summary.primary_harm, one.summary.reference
    for name, contrast in harm.contrast.items() if harm else ():
        before, after = contrast.by_order(True), contrast.by_order(False)
        if before and after and contrast.order_p is not None and contrast.order_p <= 1 - LEVEL:
            yield (
                f"The order matters: the harm with {name} minus that with {reference} is {number(before.value)} where "
                f"{name} came first and {number(after.value)} where it came second (p = {contrast.order_p:.2g}); "
                "the p of their difference excludes it."
            )


def _about_bar(summary: ExperimentSummary) -> Iterator[str]:
    """Yield a sentence on the bar set by the victim's own kind, in the primary metric."""
    own, harm = summary.own_kind, summary.primary_harm
    if own is None or harm is None:
        return
    kind = "a contender of the victim's own kind" if own in (CALL, GAME) else "the victim's own congestion control"
    if own not in summary.contenders:
        yield f"No bar: {own}, {kind}, did not compete."
        return
    beyond = [f"{name} {interval(less)}" for name, less in harm.beyond.items()]
    label, _ = named(harm.metric)
    bar = f"Bar, the harm by {own}, {kind} ({label}): {interval(harm.contended.get(own))}"
    yield bar + (f"; harm minus the bar: {', '.join(beyond)}." if beyond else ".")


def method() -> str:
    """Return how the intervals are computed."""
    return (
        f"In brackets: {LEVEL:.0%} interval over runs (expanded bootstrap percentile, {RESAMPLES} resamples, "
        f"seed {SEED}); without brackets, all runs are equal. p: paired t-test over the runs with the order as a "
        "factor (sign test if undefined); the primary metric's as tested, that of the others corrected for their "
        f"number in the table, per contender (Holm 1979); at most {1 - LEVEL:.2g} where worse or better is shown. "
        "Detectable: the smallest true mean difference that this test would detect with power "
        f"{POWER:g} (alpha {1 - LEVEL:.2g}, uncorrected). Relevant: the least difference that is called worse or "
        "better, whatever its p. The interval of a difference with the order as a factor is that of this t-test."
    )


def grids(one: Experiment) -> list[Grid]:
    """Return the tables of an experiment: measured values of the contender phases, and the harm."""
    summary = one.summary
    if not summary.valid:
        return []
    measured = list(one.figures("measured"))
    if not one.victims:
        return [_grid("Mean over the runs (the median of what is infinite in one).", measured, summary, one.base)]
    harm = list(one.figures("harm"))
    caption = "Mean over the runs (median for the lowest picture and for infinite values)"
    caption += f", contender phases of {one.phase_s} s." if summary.contenders else f", {summary.baseline_s or 0:g} s."
    against = f"Harm against the baseline of the same run ({alone_for(summary.baseline_s)}without recovery time)"
    harms = [_grid(f"{against}: 0 none, 1 the worst.", harm, summary)] if harm else []
    return [_grid(caption, measured, summary, one.base), *harms]


def _grid(caption: str, figures: Sequence[ExperimentFigure], summary: ExperimentSummary, alone: str = "") -> Grid:
    """Return a table of figures; `alone` heads the column of those without a contender, empty for none."""
    others = summary.contenders[1:]
    heads = ["", *([alone] if alone else []), *(f"with {name}" for name in summary.contenders)]
    heads += [head for name in others for head in (f"{name} − {summary.reference}", "p", "detectable", "relevant")]
    grid = Grid(caption, heads)
    for figure, label in ((it.figure, it.label) for it in figures):
        cells = [label + (PRIMARY if figure.primary else ""), *([figure_text(figure, summary)] if alone else [])]
        cells += [
            DEMAND_MET if not alone and figure.unlimited(name) else figure_text(figure, summary, name)
            for name in summary.contenders
        ]
        alone_cell, contended = cells[1] if alone else "–", set(cells[2:] if alone else cells[1:])
        # Without a figure alone, only nothing is no difference: one contender is alike to itself.
        alike = not figure.primary and (contended <= _NOTHING or contended == {alone_cell})
        hurt = set()
        for name in others:
            contrast = figure.contrast.get(name)
            if figure.worse(name):
                hurt.add(len(cells))
            if figure.unlimited(name) and (not alone or figure.unlimited(summary.contenders[0])):
                cells += [DEMAND_MET, "–", "–", "–"]
                continue
            sizes = (contrast.mde, contrast.least) if contrast else (None, None)
            cells += [interval(contrast), _p(figure, contrast), *map(number, sizes)]
        grid.rows.append(Row(cells, hurt=hurt, alike=alike and not hurt))
    return grid


def _p(figure: Figure, contrast: PairedContrast | None) -> str:
    """Return the p that decides a contrast."""
    if contrast is None:
        return "–"
    return p_text(contrast.p if figure.primary else contrast.p_holm)


def _plot(one: Experiment, it: ExperimentFigure) -> Iterator[dict[str, Any]]:
    """Yield one figure's runs as dots; none if nothing happened in any run, or the same in all of them."""
    summary, figure, title, never = one.summary, it.figure, it.label, it.never
    of = list(figure.contended.values()) if one.victims else []
    of += [figure.alone] if figure.alone else []
    if len({number(value) for estimate in of for value in estimate.values}) < 2:
        return
    rows = [(one.base, "who-alone", figure.alone)] if figure.alone else []
    rows += [
        (f"with {name}", who(name), estimate) for name in summary.contenders if (estimate := figure.contended.get(name))
    ]
    less = [(f"{name} − {summary.reference}", who(name), estimate) for name, estimate in figure.contrast.items()]
    drawn = [dot_plot([_dots(*row) for row in rows], title, never=never)]
    if less:
        drawn.append(dot_plot([_dots(*row) for row in less], f"{title}, differences", zero=True, never=never))
    yield {"title": title, "svg": Markup("".join(drawn))}


def _dots(label: str, kind: str, figure: Estimate) -> Dots:
    return Dots(label, kind, figure.values, figure.value, figure.low, figure.high)


def _write_table(groups: Sequence[Experiment], path: Path) -> None:
    """Write one line per figure, for other programs."""
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    heads = ["experiment", "kind", "metric", "contender", "statistic", "n", "value", "low", "high", "detectable"]
    heads += ["relevant", "p", "p_holm"]
    out.writerow([*heads, "runs"])
    for one in groups:
        every = (("measured", [*one.summary.measured, *one.summary.further]), ("harm", one.summary.harm))
        for kind, figures in every:
            for figure in figures:
                rows: list[tuple[str, Estimate]] = [(one.base, figure.alone)] if figure.alone else []
                rows += list(figure.contended.items())
                rows += [(f"{it}-{one.summary.reference}", estimate) for it, estimate in figure.contrast.items()]
                for name, estimate in rows:
                    values = [estimate.value, estimate.low, estimate.high]
                    values += [getattr(estimate, field, None) for field in ("mde", "least", "p", "p_holm")]
                    given = ["" if value is None else f"{value:g}" for value in values]
                    runs = " ".join(f"{value:g}" for value in estimate.values)
                    out.writerow([one.title, kind, figure.metric, name, estimate.statistic, estimate.n, *given, runs])
    replace_file(path, file.getvalue().encode())


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder.resolve())).as_posix()
