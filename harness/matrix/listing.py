# SPDX-License-Identifier: Apache-2.0
"""Lists of matrices and of a matrix's cells, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rich.table import Table

from sojourn.harness.matrix.matrix import Matrix
from sojourn.harness.matrix.matrix_plan import MatrixPlan
from sojourn.harness.matrix.results import finished
from sojourn.harness.terminal import plain_table


def matrices_list(known: Iterable[Matrix]) -> list[dict[str, Any]]:
    """Return the matrices with their cells, cells that cannot run here, runs and seconds of lab time."""
    return [
        {
            "name": matrix.name,
            "title": matrix.title,
            "cells": len(matrix.runnable),
            "lacking": len(matrix.cells) - len(matrix.runnable),
            "runs": len(matrix.runnable) * matrix.repeat,
            "seconds": sum(cell.seconds for cell in matrix.runnable) * matrix.repeat,
            "labs": list(matrix.labs),
        }
        for matrix in known
    ]


def matrices_table(known: Iterable[Matrix]) -> Table:
    """Return the same as a table."""
    table = plain_table("matrix", "", "cells", "runs", "lab time", "lab")
    listed = matrices_list(known)
    for one in listed:
        cells = f"{one['cells']}" + (f" (+{one['lacking']})" if one["lacking"] else "")
        labs = ", ".join(one["labs"])
        table.add_row(one["name"], one["title"], cells, str(one["runs"]), _hours(one["seconds"]), labs)
    runs, seconds = (sum(one[key] for one in listed) for key in ("runs", "seconds"))
    missing = "; (+N): cells that cannot run here" if any(one["lacking"] for one in listed) else ""
    table.caption = (
        f"{len(listed)} matrices, {runs} runs, {_hours(seconds)} of lab time{missing}. "
        "List the cells of one: `sojourn matrix NAME --list`; run it: `sojourn matrix NAME`."
    )
    table.caption_justify = "left"
    return table


def cells_list(plan: MatrixPlan) -> list[dict[str, Any]]:
    """Return the cells of a plan, and what the matrix's other cells need; `seconds` of lab time."""
    done = Counter(cell.name for cell, _, _ in finished(plan.matrix, plan.folder))
    cells = [{"cell": it.name, "seconds": it.seconds, "finished": done[it.name], "needs": ""} for it in plan.cells]
    missing = (it for it in plan.matrix.cells if it.needs)
    return cells + [{"cell": it.name, "seconds": it.seconds, "finished": 0, "needs": it.needs} for it in missing]


def cells_table(plan: MatrixPlan) -> Table:
    """Return the same as a table."""
    table = plain_table("cell", "lab time", "finished")
    for one in cells_list(plan):
        needs = f"needs {one['needs']}" if one["needs"] else f"{one['seconds']:g} s"
        table.add_row(one["cell"], needs, str(one["finished"] or ""))
    return table


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
