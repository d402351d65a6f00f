# SPDX-License-Identifier: Apache-2.0
"""Results against every published table of the sources, as a Markdown table (docs/experiments.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from sojourn.harness.matrix.matrix import Matrix, MatrixError
from sojourn.harness.matrix.matrix_plan import MatrixPlan, prepare, seeds
from sojourn.harness.matrix.results import (
    MISSING,
    Results,
    column_head,
    figure_text,
    furthest_text,
    left_out_text,
    results,
)
from sojourn.harness.report.markdown import markdown_table
from sojourn.scoring.reference import published
from sojourn.scoring.reference.published import PublishedComparison

TABLES = "tables.csv"
"""In scoring/reference/: a row per published table, with the matrix, cells and metrics that reproduce it."""
MARKS = "<!-- published tables: made by `sojourn paper` -->", "<!-- end of the published tables -->"
"""The lines of a page that they are written between."""
_HEADS = ("table", "matrix", "figures", "cells", "rank", "Pearson", "log ratio", "absolute", "furthest; why")


@dataclass(frozen=True)
class PublishedTable:
    """One published table: where it is, and what reproduces it; `cells` is a regular expression for their names."""

    source: str
    group: str
    """The group in which it appears in the summary (`published_summary`)."""
    table: str
    matrix: str
    cells: str
    metrics: tuple[str, ...]
    note: str


@dataclass(frozen=True)
class TableFigure:
    """One metric of published tables: the comparison, and how many cells have a published figure."""

    compared: PublishedComparison
    published: int


def tables() -> list[PublishedTable]:
    """Return every published table of the sources."""
    return [
        PublishedTable(
            row["source"],
            row["group"],
            row["table"],
            row["matrix"],
            row["cells"],
            tuple(row["metrics"].split()),
            row["note"],
        )
        for row in published.rows(TABLES)
    ]


def gather(known: Mapping[str, Matrix], folder: Path) -> dict[str, Results]:
    """Return the finished runs in `folder` of every matrix that reproduces a table, each in its preferred lab.

    Builds missing inputs of the runs. Raises MatrixError, EngineError or BuildError.
    """
    gathered = {}
    for name in dict.fromkeys(one.matrix for one in tables() if one.metrics):
        if not (matrix := known.get(name)):
            raise MatrixError(f"{TABLES}: unknown matrix {name!r}", code="unknown-value")
        plan = MatrixPlan(matrix, matrix.runnable, seeds(1, 1), folder, lab=matrix.preferred_lab)
        if not plan.folder.is_dir():  # nothing has run; do not create the folder by reading
            gathered[name] = Results(matrix, plan.folder)
            continue
        jobs, _ = prepare(plan)
        gathered[name] = results(matrix, plan.folder, jobs[0].inputs, jobs[0].programs)
    return gathered


def markdown(gathered: Mapping[str, Results]) -> str:
    """Return the rows of all tables, folded by source; fields of several figures are in the same order."""
    parts = []
    for source, of_source in groupby(tables(), lambda one: one.source):
        rows = [_cells(one, gathered.get(one.matrix)) for one in of_source]
        lines = [f"<details><summary>{source}: {len(rows)} tables</summary>", ""]
        lines += [markdown_table(_HEADS, rows), "", "</details>"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def figures(of: Sequence[PublishedTable], finished: Results) -> list[TableFigure]:
    """Return a figure for each metric of the tables, over the published cells of all tables with it, each cell once."""
    theirs = finished.matrix.reference.published if finished.matrix.reference else {}
    rows = []
    for metric in dict.fromkeys(metric for one in of for metric in one.metrics):
        meant = [one.cells for one in of if metric in one.metrics]
        cells = [cell for cell in theirs if metric in theirs[cell] and any(re.search(each, cell) for each in meant)]
        pairs = tuple(pair for cell in cells if (pair := finished.pair(cell, metric)))
        rows.append(TableFigure(PublishedComparison(metric, None, pairs), len(cells)))
    return rows


def _cells(one: PublishedTable, finished: Results | None) -> Iterator[str]:
    name = f"`{one.matrix}`" if one.matrix else MISSING
    yield from (one.table, name)
    if not finished or not one.metrics:
        yield from [MISSING] * (len(_HEADS) - 3)
        yield one.note
        return
    rows = figures([one], finished)
    comparisons = [figure.compared for figure in rows]
    yield " / ".join(column_head(finished.matrix, metric) for metric in one.metrics)
    yield _each(f"{len(it.compared.pairs)} of {it.published}{left_out_text(it.compared)}" for it in rows)
    yield _each(figure_text(comparison.spearman, 2) for comparison in comparisons)
    yield _each(figure_text(comparison.pearson, 2) for comparison in comparisons)
    yield _each(figure_text(comparison.median_log_ratio, 2) for comparison in comparisons)
    yield _each(figure_text(comparison.median_abs_log_ratio, 2) for comparison in comparisons)
    # A cell that is far off in one figure mostly is far off in another.
    furthest = dict.fromkeys(
        f"`{furthest_text(pair)}`" for comparison in comparisons for pair in comparison.furthest(1)
    )
    yield "; ".join([*furthest, *filter(None, [one.note])])


def _each(texts: Iterator[str]) -> str:
    """Return figures of several metrics as one field; a single one if all are equal."""
    each = list(texts)
    return each[0] if len(set(each)) == 1 else " / ".join(each)
