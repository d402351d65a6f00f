# SPDX-License-Identifier: Apache-2.0
"""Results against the published tables at a glance: a row per group of tables, and a picture of all figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import exp, isinf
from pathlib import Path
from typing import Literal

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix.matrix import Matrix, MatrixError
from sojourn.harness.matrix.pages import published_table
from sojourn.harness.matrix.pages.published_table import PublishedTable, TableFigure, tables
from sojourn.harness.matrix.results import MISSING, Results, column_head, figure_text
from sojourn.harness.report.agreement_plot import Quantity, SourceDots, agreement_plot
from sojourn.harness.report.markdown import markdown_table, write_between
from sojourn.harness.report.picture import write_picture
from sojourn.scoring.reference import published
from sojourn.scoring.reference.published import AGREEING_RANK, AGREEING_SIZE, FROZEN, PublishedComparison, pair
from sojourn.scoring.transport.geometry import rate_periods

GROUPS = "table_groups.csv"
"""In scoring/reference/: remarks on groups of the tables."""
MARKS = "<!-- summary of the published tables: made by `sojourn paper` -->", "<!-- end of the summary -->"
"""The lines of a page that it is written between."""
PICTURE = "img/published.png"
"""The picture, relative to the folder of the page."""
Verdict = Literal["agrees", "disagrees", "unexplained", "not run"]
_HEADS = (
    "published; matrix",
    "figure",
    "verdict",
    "cells",
    "Sojourn is",
    "half within factor",
    "90% within factor",
    f"within {exp(AGREEING_SIZE) - 1:.0%}",
    "rank; Pearson",
    "a formula",
)
#: The quantity of a figure, by the suffix of its metric's name, and the factor to one unit.
_QUANTITIES = {"_mbps": ("rates (Mbit/s)", 1.0), "_ms": ("times (ms)", 1.0), "_s": ("times (ms)", 1000.0)}
_SHARES = ("indices, ratios, harm, loss", 1.0)


@dataclass(frozen=True)
class TableGroup:
    """Published tables of a source that are summarized together, and why they disagree if that is known.

    Some can be judged only by their order: differences around 0, or figures of another path.
    """

    source: str
    name: str
    tables: tuple[PublishedTable, ...]
    by_order: bool
    cause: str
    independent: tuple[str, ...] | None = None
    """The metrics that are counted: the others of the same cells follow from them. None: all of them."""
    fitted: str = ""
    """What of Sojourn was chosen on the same cells; empty if nothing was."""

    def counts(self, metric: str) -> bool:
        """Return whether a metric is independent of the others."""
        return self.independent is None or metric in self.independent


def write(known: Mapping[str, Matrix], results: Path, page: Path) -> tuple[Path, Path]:
    """Write summary and tables of the finished runs in `results` into a Markdown page, and the picture next to it.

    Returns page and picture. Raises MarksError for a page without the marks; MatrixError, also for finished runs that
    cannot be compared; EngineError or BuildError.
    """
    gathered = published_table.gather(known, results)
    for name, of_matrix in gathered.items():
        if of_matrix.left_out:
            raise MatrixError(
                f"{of_matrix.folder}: {of_matrix.left_out} finished runs of {name} are of other inputs or another "
                f"scorer than this code; `sojourn matrix {name}` repeats them",
                code="conflict",
            )
    picture = page.parent / PICTURE
    texts = {MARKS: markdown(gathered), published_table.MARKS: published_table.markdown(gathered)}
    write_between(texts, page)
    picture.parent.mkdir(exist_ok=True)
    write_picture(agreement_plot(quantities(gathered), AGREEING_SIZE), picture)
    return page, picture


def groups() -> list[TableGroup]:
    """Every group of published tables, in the order of the sources."""
    said = {(row["source"], row["group"]): row for row in published.rows(GROUPS)}
    parts: dict[tuple[str, str], list[PublishedTable]] = {}
    for one in tables():
        parts.setdefault((one.source, one.group), []).append(one)
    return [
        TableGroup(
            *key,
            tuple(of_group),
            (remark := said.get(key, {})).get("judged_by") == "order",
            remark.get("cause", ""),
            tuple(remark["independent"].split()) if remark else None,
            remark.get("fitted", ""),
        )
        for key, of_group in parts.items()
    ]


def verdict(comparison: PublishedComparison, group: TableGroup) -> Verdict:
    """Return whether a figure of a group agrees, and if not, whether the cause is known."""
    agrees = comparison.ordered if group.by_order else comparison.similar
    if agrees is None:
        return "not run"
    return "agrees" if agrees else "disagrees" if group.cause else "unexplained"


def formula(cell: Cell, metric: str) -> float | None:
    """Return what needs no simulation: an equal share of the rate, or the path's RTT and a queue.

    None for another metric, and without one rate throughout.

    The share is of the payload, 1448 of 1514 bytes; the queue is 5 ms, a usual target, and four packets of 1514 bytes.
    What a formula reaches too tells little about a simulation.
    """
    known, periods = re.fullmatch(r"flows\.(\d+)\.(\w+)", metric), rate_periods(cell)
    if not known or len(periods) > 1 or (mbps := periods[0][1]) is None:
        return None
    if known[2] in ("goodput_mbps", "d_ss_mbps", "window_goodput_mbps"):
        return mbps * 1448 / 1514 / len(cell.flows)
    if known[2] == "rtt_mean_ms":
        return cell.flows[int(known[1])].rtt_us / 1e3 + 5 + 4 * 1514 * 8 / (mbps * 1e3)
    return None


def _by_formula(figures: Sequence[TableFigure], cells: Sequence[Cell]) -> list[PublishedComparison]:
    """Return the comparison of the formula's figures with the published ones, of each figure."""
    named, found = {cell.name: cell for cell in cells}, []
    for one in (figure.compared for figure in figures):
        predicted = ((it, formula(named[it.cell], one.metric)) for it in one.pairs)
        pairs = (pair(it.cell, [ours], it.theirs, None) for it, ours in predicted if ours is not None)
        found.append(PublishedComparison(one.metric, None, tuple(pairs)))
    return found


def markdown(gathered: Mapping[str, Results]) -> str:
    """Return the picture's link, a table with a row per group (each of its figures on a line), and how to read it."""
    lines = [f"![All published figures against Sojourn's]({PICTURE})", ""]
    counted: list[Verdict] = []
    #: Of each figure that counts and agrees: whether it was fitted, and whether a formula agrees, too.
    agreeing: list[tuple[bool, bool]] = []
    rows = []
    for source, of_source in groupby(groups(), lambda one: one.source):
        rows.append([f"**{source}**", *[""] * (len(_HEADS) - 1)])
        for group in of_source:
            figures = _figures(group, finished := _results(group, gathered))
            by_formula = _by_formula(figures, finished.matrix.cells if finished else ())
            judged = [
                (verdict(one.compared, group), verdict(other, group))
                for one, other in zip(figures, by_formula, strict=True)
                if group.counts(other.metric)
            ]
            counted += [word for word, _ in judged]
            agreeing += [(bool(group.fitted), other == "agrees") for word, other in judged if word == "agrees"]
            rows.append([*_cells(group, finished, figures, by_formula)])
    counts = {word: counted.count(word) for word in ("agrees", "disagrees", "unexplained", "not run")}
    lines.append(
        f"Of {len(counted)} independent published figures **{counts['agrees']} agree**, {counts['disagrees']} disagree "
        f"for a suspected cause, **{counts['unexplained']} are unexplained**, {counts['not run']} "
        f"{'has' if counts['not run'] == 1 else 'have'} not run. Of those that agree, {sum(it for it, _ in agreeing)} "
        f"were *fitted*, and in {sum(it for _, it in agreeing)} *a formula* without a simulation agrees, too: where "
        "rate and RTT decide most of a figure, agreement says little. "
        f"{sum(not any(it) for it in agreeing)} are neither."
    )
    size = f"{exp(AGREEING_SIZE) - 1:.0%}"
    lines += [
        "",
        markdown_table(_HEADS, rows),
        "",
        "- *Sojourn is*: median over the cells of Sojourn/published.",
        "- *half within factor*, *90% within factor*: that share of the cells differs by at most this factor, up or "
        f"down; *within {size}*: the share of the cells that differ by at most that.",
        f"- *agrees*: half of the cells are within {size}, and the rank correlation is at least {AGREEING_RANK:g}. A "
        "correlation in brackets is not required, because all published figures are that close to their own median. "
        "Differences, and figures of another path, are judged by the rank correlation alone.",
        "- *∞*: cells with an infinite value here; they agree in no figure.",
        "- *(verdict)*: not counted, because the figure follows from another one of the same cells, such as the second "
        "rate of two flows that fill a link.",
        "- *fitted*: a parameter of Sojourn was chosen on the same cells, so that agreement confirms nothing.",
        "- *a formula*: half of the cells are within this factor of an equal share of the rate in payload, or of the "
        "path's RTT, 5 ms and four packets; in bold where Sojourn is not closer.",
        "",
        f"These thresholds were chosen after the first comparisons, and are frozen since {FROZEN}.",
    ]
    return "\n".join(lines) + "\n"


def quantities(gathered: Mapping[str, Results]) -> list[Quantity]:
    """Return all figures with a published one, for the picture: a panel per quantity, a series per source."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for group in groups():
        for figure in _figures(group, _results(group, gathered)):
            metric = figure.compared.metric
            title, unit = next((of for ending, of in _QUANTITIES.items() if metric.endswith(ending)), _SHARES)
            dots = [(p.theirs * unit, p.ours * unit) for p in figure.compared.pairs if p.log_ratio is not None]
            panels.setdefault(title, {}).setdefault(group.source, []).extend(dots)
    order = dict.fromkeys([*(title for title, _ in _QUANTITIES.values()), _SHARES[0]])
    sources = dict.fromkeys(group.source for group in groups())
    return [
        Quantity(title, [SourceDots(source, panels[title].get(source, ())) for source in sources])
        for title in order
        if title in panels
    ]


def _figures(group: TableGroup, finished: Results | None) -> list[TableFigure]:
    return published_table.figures(group.tables, finished) if finished else []


def _results(group: TableGroup, gathered: Mapping[str, Results]) -> Results | None:
    return next((gathered[one.matrix] for one in group.tables if one.metrics and one.matrix in gathered), None)


def _cells(
    group: TableGroup,
    finished: Results | None,
    figures: Sequence[TableFigure],
    by_formula: Sequence[PublishedComparison],
) -> Iterator[str]:
    compared = [one.compared for one in figures]
    verdicts = [verdict(one, group) for one in compared]
    matrices = ", ".join(dict.fromkeys(f"`{one.matrix}`" for one in group.tables if one.matrix))
    notes = dict.fromkeys(one.note for one in group.tables if not one.metrics) if not figures else {}
    fitted = group.fitted and f"fitted: {group.fitted}"
    why = "; ".join(filter(None, [group.cause if "disagrees" in verdicts else "; ".join(notes), fitted]))
    yield "<br>".join(filter(None, [f"{group.name}{matrices and f'; {matrices}'}", why and f"*{why}*"]))
    if not finished:
        yield from [MISSING, "no figures", *[MISSING] * (len(_HEADS) - 3)]
        return
    yield _lines(column_head(finished.matrix, one.metric) for one in compared)
    yield _lines(_word(one, word, group) for one, word in zip(compared, verdicts, strict=True))
    yield _lines(_count(one) for one in figures)
    yield _lines(_times(one.median_log_ratio) for one in compared)
    yield _lines(_within(one.median_abs_log_ratio) for one in compared)
    yield _lines(_within(one.p90_abs_log_ratio) for one in compared)
    yield _lines(MISSING if one.near_share is None else f"{one.near_share:.0%}" for one in compared)
    yield _lines(_order(one, group) for one in compared)
    yield _lines(_closeness(*both) for both in zip(compared, by_formula, strict=True))


def _word(one: PublishedComparison, word: Verdict, group: TableGroup) -> str:
    """Return a verdict: in brackets if it is not counted, and with what was chosen on the same cells."""
    text = f"{word}, fitted" if group.fitted and word == "agrees" else word
    if not group.counts(one.metric):
        return f"({text})"
    return f"**{text}**" if word == "unexplained" else text


def _count(one: TableFigure) -> str:
    """Return how many cells have run, and of how many if not all."""
    run = len(one.compared.pairs)
    lost = f", {one.compared.infinite} ∞" if one.compared.infinite else ""
    return (f"{run}" if run == one.published else f"{run} of {one.published}") + lost


def _order(one: PublishedComparison, group: TableGroup) -> str:
    """Return both correlations; the rank correlation in brackets if it decides nothing."""
    if one.spearman is None:
        return MISSING
    rank = figure_text(one.spearman, 2)
    judged = group.by_order or one.order_is_decisive
    return f"{rank if judged else f'({rank})'}; {figure_text(one.pearson, 2)}"


def _closeness(ours: PublishedComparison, by_formula: PublishedComparison) -> str:
    """Return how near a formula comes; in bold if it is as near as ours."""
    near, size = ours.median_abs_log_ratio, by_formula.median_abs_log_ratio
    text = _within(size)
    return f"**{text}**" if size is not None and near is not None and size <= near else text


def _times(log_ratio: float | None) -> str:
    return MISSING if log_ratio is None else f"× {exp(log_ratio):.2f}"


def _within(size: float | None) -> str:
    return MISSING if size is None else "∞" if isinf(size) else f"{exp(size):.2f}"


def _lines(texts: Iterator[str]) -> str:
    """Return the lines of a field, unbroken so that they align with those of the next one."""
    return "<br>".join(texts).replace(" ", "\u00a0")
