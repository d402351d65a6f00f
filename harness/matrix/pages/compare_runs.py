# SPDX-License-Identifier: Apache-2.0
"""Version against version: the runs of a matrix against those of the same cells in another results folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix.cells.cell_run import CellJob, current_scores, recorded
from sojourn.harness.matrix.matrix import Column, Matrix, MatrixError, Reference
from sojourn.harness.matrix.results import MISSING, Results, cell_folder, column_head, finished, mean
from sojourn.harness.store.loaded import stored_object
from sojourn.harness.store.manifest import read_manifest
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.reference.published import AGREEING_SIZE
from sojourn.scoring.schema.files import CELL

if TYPE_CHECKING:
    from sojourn.scoring.statistics.intervals import Estimate

THEIRS = "other"
"""What the figures of the other runs are called."""


@dataclass(frozen=True)
class FolderComparison:
    """These runs against the other ones, whose figures stand in the place of published ones in `compared`."""

    compared: Results
    origins: tuple[dict[str, str], dict[str, str]]
    """Provenance of these runs and of the others: name → version or digest."""
    ours_alone: tuple[str, ...]
    """Names of the cells with finished runs only here, and of those with finished runs only there."""
    theirs_alone: tuple[str, ...]
    redefined: tuple[str, ...]
    """Names of cells that have runs in the other folder, but with another definition."""

    def lines(self) -> Iterator[str]:
        """Yield both sides' provenance, the comparison of their figures, and cells that one side does not have."""
        for name, ours, theirs in self.differences():
            yield f"{name}: {ours}; {THEIRS}: {theirs}"
        yield from self.compared.published_lines()
        yield from self.coverage()

    def coverage(self) -> Iterator[str]:
        """Yield lines: figures shifted in all cells, how many cells both sides have, and those that one side lacks."""
        yield self._shifted()
        both = len(self.compared.cells) - len(self.ours_alone)
        yield f"{both} cell{'s' * (both != 1)} on both sides"
        for what, cells in (
            ("not in the other folder", self.ours_alone),
            ("in the other folder only", self.theirs_alone),
            ("with another definition there, not compared", self.redefined),
        ):
            if cells:
                yield f"{len(cells)} cell{'s' * (len(cells) > 1)} {what}: {', '.join(cells)}"

    def shifts(self) -> dict[str, Estimate]:
        """The median over the cells of each figure's log(these/other), with its interval, by the head of its column.

        The resampled units are cells: one run of each on both sides is enough to show a common shift.
        """
        from sojourn.scoring.statistics.intervals import estimate  # imports SciPy, which runs do not need

        return {
            column_head(self.compared.matrix, one.metric): estimate(ratios, "median")
            for one in self.compared.comparisons()
            if (ratios := [pair.log_ratio for pair in one.pairs if pair.log_ratio is not None])
        }

    def _shifted(self) -> str:
        shifts = self.shifts()
        shifted = [
            f"{head} {one.value:+.3f} ({one.low:+.3f} to {one.high:+.3f})"
            for head, one in shifts.items()
            if one.away_from_zero
        ]
        return (
            f"medians of log(these/other) whose 95% interval over the cells excludes 0: {len(shifted)} of "
            f"{len(shifts)}: {', '.join(shifted) or 'none'}"
        )

    def differences(self) -> list[tuple[str, str, str]]:
        """Provenance: name, these runs', the others'; what is equal on both sides only if it is essential."""
        ours, theirs = self.origins
        names = dict.fromkeys((*ours, *theirs))
        rows = ((name, ours.get(name, MISSING), theirs.get(name, MISSING)) for name in names)
        return [row for row in rows if row[1] != row[2] or row[0] in ("release", "queues", "runs")]


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
        f"--compare-with: {place} no finished run of matrix {matrix.name}; found {there or 'none'}", code="not-a-run"
    )


def other_results(matrix: Matrix, folder: Path) -> Results:
    """Read the finished runs in `folder` with the inputs that most of them have; others, and changed runs, are
    excluded.

    Scores of another version are recomputed and not stored. Raises MatrixError.
    """
    builds: dict[str, list[tuple[Cell, int, Path]]] = {}
    whole = 0
    for cell, seed, run in finished(matrix, folder):
        whole += 1
        if (manifest := recorded(run)) and manifest.cache:
            builds.setdefault(manifest.cache.inputs, []).append((cell, seed, run))
    if not builds:
        raise MatrixError(f"--compare-with: {folder}: every run was changed after it was recorded", code="altered")
    inputs, chosen = max(builds.items(), key=lambda build: len(build[1]))
    gathered = Results(matrix, folder, left_out=whole - len(chosen))
    for cell, seed, run in chosen:
        try:
            scores = current_scores(CellJob(cell, seed, *matrix.window_of(cell), inputs), run)
        except Exception as error:  # files of any version
            raise MatrixError(
                f"--compare-with: {run}: cannot be scored: {type(error).__name__}: {error}", code="damaged"
            ) from error
        gathered.take(cell, seed, run, scores)
    gathered.derive()
    return gathered


def compare_folders(ours: Results, theirs: Results, cells: Sequence[Cell]) -> FolderComparison:
    """Compare the runs of `theirs` with ours, for these `cells` only; within AGREEING_SIZE is near."""
    matrix = _with_standard_columns(ours.matrix, cells)
    sides = []
    for side in (ours, theirs):
        runs = {cell.name: side.runs[cell.name] for cell in cells if cell.name in side.runs}
        sides.append(replace(side, matrix=matrix, runs=runs))
    mine, other = sides
    figures = {
        cell.name: {
            metric: value for metric in _metrics(matrix) if (value := mean(other.values(cell.name, metric))) is not None
        }
        for cell in other.cells
    }
    most = {metric: exp(AGREEING_SIZE) - 1 for metric in _metrics(matrix)}
    reference = Reference(csv=str(theirs.folder), published=figures, tolerance=most)
    changed = {
        "reference": reference,
        "source": f"compared with the runs in {theirs.folder}",
        "summaries": (),
        "expectations": (),
    }
    compared = replace(mine, matrix=matrix.model_copy(update=changed), theirs=THEIRS, other=other)
    here, there = ([cell.name for cell in side.cells] for side in sides)
    return FolderComparison(
        compared,
        (origin(mine), origin(other)),
        tuple(name for name in here if name not in there),
        tuple(name for name in there if name not in here),
        _redefined(cells, theirs.folder),
    )


def origin(side: Results) -> dict[str, str]:
    """Return the provenance of a side's runs, by name, from the first of them: all have the same inputs."""
    runs = [run for by_seed in side.paths.values() for run in by_seed.values()]
    seeds = sorted({seed for by_seed in side.runs.values() for seed in by_seed})
    made = {"folder": str(side.folder)}
    if runs:
        manifest, of_cell = read_manifest(runs[0]), stored_object(runs[0] / CELL)
        git = manifest.git
        made["Sojourn"] = f"{git.commit[:12]}{' (changed)' * git.dirty}" if git else "not recorded"
        made |= manifest.versions
        made |= {name: str(of_cell[name]) for name in ("lab", "endpoints") if name in of_cell}
        made["inputs"] = manifest.cache.inputs if manifest.cache else MISSING
    made["queues"] = "; ".join(_queues(side.cells))
    made["runs"] = f"{sum(map(len, side.runs.values()))} of {len(side.runs)} cells, seeds {', '.join(map(str, seeds))}"
    made["excluded"] = f"{side.left_out} runs with other inputs, or changed"
    return made


def _queues(cells: Sequence[Cell]) -> list[str]:
    ways = (way for cell in cells for hop in cell.hops for way in (hop.down, hop.up) if way)
    return list(dict.fromkeys(str(way.qdisc) for way in ways))


def _redefined(cells: Sequence[Cell], folder: Path) -> tuple[str, ...]:
    """Return the cells of `folder` with the name of one here and another definition."""
    return tuple(
        cell.name
        for cell in cells
        if not cell_folder(folder, cell).is_dir()
        and any(re.fullmatch("[0-9a-f]{16}", path.name[len(cell.slug) + 1 :]) for path in folder.glob(f"{cell.slug}-*"))
    )


def _with_standard_columns(matrix: Matrix, cells: Sequence[Cell]) -> Matrix:
    """Return the matrix with columns of each flow's rate, each probe's P50 and P99 and Jain's index if it has none."""
    flows, probes = max(len(cell.flows) for cell in cells), max(len(cell.probes) for cell in cells)
    standard = [Column(head=f"flow {n + 1} Mbit/s", metric=f"flows.{n}.d_ss_mbps") for n in range(flows)]
    standard += [
        Column(head=f"probe {n + 1} P{percent} ms", metric=f"probes.{n}.p{percent}_ms")
        for n in range(probes)
        for percent in (50, 99)
    ]
    if flows > 1:
        standard.append(Column(head="Jain's index", metric="jain", digits=3))
    known = {column.metric for column in matrix.columns}
    more = tuple(column for column in standard if column.metric not in known)
    return matrix.model_copy(update={"columns": matrix.columns + more})


def _metrics(matrix: Matrix) -> Iterator[str]:
    """Yield the metrics with one figure per run, of the columns and of the charts' bars."""
    yield from (column.metric for column in matrix.columns)
    yield from (
        metric for chart in matrix.charts if not (chart.ccdf or chart.over_time) for metric in chart.series.values()
    )
