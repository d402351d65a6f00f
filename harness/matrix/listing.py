# SPDX-License-Identifier: Apache-2.0
"""Lists of matrices and of a matrix's cells, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.table import Table

from harness.matrix.campaign import Campaign
from harness.matrix.matrix import Matrix
from harness.matrix.results import finished


def matrices_table(found: Iterable[Matrix]) -> Table:
    """Return a table of matrices: cells, runs, lab time and labs of each."""
    table = Table("matrix", "", "cells", "runs", "lab time", "lab", box=None, pad_edge=False, header_style="dim")
    for matrix in found:
        lacking = len(matrix.cells) - len(matrix.runnable)
        cells = f"{len(matrix.runnable)}" + (f" (+{lacking})" if lacking else "")
        seconds = sum(cell.seconds for cell in matrix.runnable) * matrix.repeat
        runs = len(matrix.runnable) * matrix.repeat
        table.add_row(matrix.name, matrix.title, cells, str(runs), _hours(seconds), ", ".join(matrix.labs))
    return table


def cells_table(plan: Campaign) -> Table:
    """Return a table of the cells of a plan and of what the others of its matrix need."""
    table = Table("cell", "lab time", "finished", box=None, pad_edge=False, header_style="dim")
    done = Counter(cell.name for cell, _, _ in finished(plan.matrix, plan.folder))
    for cell in plan.cells:
        table.add_row(cell.name, f"{cell.seconds:g} s", str(done[cell.name] or ""))
    for cell in plan.matrix.cells:
        if cell.needs:
            table.add_row(cell.name, f"needs {cell.needs}", "")
    return table


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
