# SPDX-License-Identifier: Apache-2.0
"""Version against version: the runs of a matrix against those of the same cells in another results folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix.cells.cell_run import recorded
from sojourn.harness.matrix.matrix import Matrix, MatrixError
from sojourn.harness.matrix.results import Results, cell_folder, finished
from sojourn.harness.report.compare import Comparison, compare_sides, side_of
from sojourn.harness.report.index import Left
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import RunStore

COMPARISON = "comparison.html"
"""The page of a comparison, in the folder of the matrix."""


def other_folder(matrix: Matrix, own: Path, place: Path) -> Path:
    """Return where `place` (a results folder, or a matrix's in one) has runs of the matrix other than `own`.

    Raises MatrixError that says what is there instead.
    """
    if not place.is_dir():
        raise MatrixError(
            f"--compare-with: no such folder: {place}; give the results of other runs of matrix {matrix.name}",
            code="missing",
        )
    with_runs = [
        folder
        for folder in dict.fromkeys((place / own.name, place / matrix.name, place))
        if any(finished(matrix, folder))
    ]
    for folder in with_runs:
        if folder.resolve() != own.resolve():
            return folder
    if with_runs:
        raise MatrixError(
            f"--compare-with: {place} is the folder of these runs; give another results folder", code="conflict"
        )
    if odd := _redefined(matrix.cells, place / matrix.name) or _redefined(matrix.cells, place):
        raise MatrixError(
            f"--compare-with: {place}: all of its cells have another definition, e.g. {odd[0]!r}: another version of "
            f"matrix {matrix.name}",
            code="other-version",
        )
    there = ", ".join(sorted(path.name for path in place.iterdir() if RunStore(path).runs()))
    raise MatrixError(
        f"--compare-with: {place} has no finished run of matrix {matrix.name}; found {there or 'none'}",
        code="not-a-run",
    )


def other_runs(matrix: Matrix, folder: Path, cells: Iterable[Cell]) -> tuple[list[Path], list[Left]]:
    """Return the finished runs of `cells` in `folder` with the inputs that most of them have, and the excluded ones.

    Raises MatrixError if all were changed.
    """
    names = {cell.name for cell in cells}
    builds: dict[str, list[Path]] = {}
    left = []
    for cell, _, run in finished(matrix, folder):
        manifest = recorded(run) if cell.name in names else None
        if manifest and manifest.cache:
            builds.setdefault(manifest.cache.inputs, []).append(run)
        elif cell.name in names:
            left.append(Left(run, "altered", "its files are not those that were recorded"))
    if not builds:
        raise MatrixError(f"--compare-with: {folder}: every run was changed after it was recorded", code="altered")
    chosen = max(builds.values(), key=len)
    others = (run for runs in builds.values() if runs is not chosen for run in runs)
    return chosen, [*left, *(Left(run, "other inputs", "of a build that has fewer runs here") for run in others)]


def compare_with(other: Path, runs: tuple[list[Path], list[Left]], ours: Results, cells: Sequence[Cell]) -> Comparison:
    """Compare the `runs` of the folder `other`, A, with ours of the same cells, B. Raises ReportError, StoreError."""
    mine = [run for cell in cells for run in ours.paths.get(cell.name, {}).values()]
    chosen, left = runs
    return compare_sides(
        side_of("A", other, map(load_run, chosen), left), side_of("B", ours.folder, map(load_run, mine), [])
    )


def scores_by_cell(runs: Iterable[Path]) -> dict[str, list[Any]]:
    """Return the scores of runs by the name of their cell. Raises LoadError, StoreError."""
    scores: dict[str, list[Any]] = {}
    for run in map(load_run, runs):
        scores.setdefault(run.manifest.cell, []).append(run.scores)
    return scores


def _redefined(cells: Sequence[Cell], folder: Path) -> tuple[str, ...]:
    """Return the cells of `folder` with the name of one here and another definition."""
    return tuple(
        cell.name
        for cell in cells
        if not cell_folder(folder, cell).is_dir()
        and any(re.fullmatch("[0-9a-f]{16}", path.name[len(cell.slug) + 1 :]) for path in folder.glob(f"{cell.slug}-*"))
    )
