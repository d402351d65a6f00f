# SPDX-License-Identifier: Apache-2.0
"""Version beside version: the runs of a matrix beside those of the same cells in another results folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn.harness.matrix.cell import Cell
from sojourn.harness.matrix.cells.cell_run import RUN, Job, current_scores, recorded
from sojourn.harness.matrix.matrix import Column, Matrix, MatrixError, Reference
from sojourn.harness.matrix.results import MISSING, Results, cell_folder, column_head, finished, mean
from sojourn.scoring.reference.published import AGREEING_SIZE

if TYPE_CHECKING:
    from sojourn.scoring.statistics.intervals import Estimate

THEIRS = "other"
"""What the figures of the other runs are called beside ours."""


@dataclass(frozen=True)
class Beside:
    """Our runs beside the other ones: `compared` has the figures of these in the place of published ones."""

    compared: Results
    origins: tuple[dict[str, str], dict[str, str]]
    """What made our runs, and the others: name → version or digest."""
    ours_alone: tuple[str, ...]
    """Names of the cells that have finished runs here only, and those that have some there only."""
    theirs_alone: tuple[str, ...]
    asked_otherwise: tuple[str, ...]
    """Names of cells that have runs in the other folder, but of another definition."""

    def lines(self) -> Iterator[str]:
        """What made the runs of both sides, how their figures stand to each other, and which cells one side has not."""
        for name, ours, theirs in self.differences():
            yield f"{name}: {ours}; {THEIRS}: {theirs}"
        yield from self.compared.beside_published()
        yield from self.coverage()

    def coverage(self) -> Iterator[str]:
        """What is shifted in the cells together, how many cells both sides have and which one has not, a line each."""
        yield self._shifted()
        both = len(self.compared.cells) - len(self.ours_alone)
        yield f"{both} cell{'s' * (both != 1)} on both sides"
        for what, cells in (
            ("not in the other folder", self.ours_alone),
            ("in the other folder only", self.theirs_alone),
            ("asked for otherwise there, and not compared", self.asked_otherwise),
        ):
            if cells:
                yield f"{len(cells)} cell{'s' * (len(cells) > 1)} {what}: {', '.join(cells)}"

    def shifts(self) -> dict[str, Estimate]:
        """The median over the cells of each figure's log(ours/theirs), with its interval, by the head of its column.

        Cells are what is resampled: one run of each on both sides tells a shift that they share.
        """
        from sojourn.scoring.statistics.intervals import estimate  # with SciPy, which runs do without

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
            f"medians of log(ours/theirs) whose 95% interval over the cells leaves 0 out, {len(shifted)} of "
            f"{len(shifts)}: {', '.join(shifted) or 'none'}"
        )

    def differences(self) -> list[tuple[str, str, str]]:
        """What made the runs: name, ours, the others'; of what is the same on both sides only what must be known."""
        ours, theirs = self.origins
        names = dict.fromkeys((*ours, *theirs))
        rows = ((name, ours.get(name, MISSING), theirs.get(name, MISSING)) for name in names)
        return [row for row in rows if row[1] != row[2] or row[0] in ("release", "queues", "runs")]


def other_folder(matrix: Matrix, own: Path, place: Path) -> Path:
    """Return where `place` (a results folder, or a matrix's in one) has other runs of the matrix than `own`.

    Raises MatrixError that says what is there instead.
    """
    if not place.is_dir():
        raise MatrixError(f"--beside: no such folder: {place}; want the results of other runs of matrix {matrix.name}")
    with_runs = [
        folder
        for folder in dict.fromkeys((place / own.name, place / matrix.name, place))
        if any(finished(matrix, folder))
    ]
    for folder in with_runs:
        if folder.resolve() != own.resolve():
            return folder
    if with_runs:
        raise MatrixError(f"--beside: {place} is where these runs are kept themselves; name another results folder")
    if odd := _asked_otherwise(matrix.cells, place / matrix.name) or _asked_otherwise(matrix.cells, place):
        raise MatrixError(
            f"--beside: {place}: none of its cells is asked for as here, as {odd[0]!r} is not: another version of "
            f"matrix {matrix.name}"
        )
    there = ", ".join(sorted(path.name for path in place.iterdir() if any(path.glob(f"*/seed-*/{RUN}"))))
    raise MatrixError(f"--beside: {place} has no finished run of matrix {matrix.name}; it has {there or 'none at all'}")


def other_results(matrix: Matrix, folder: Path) -> Results:
    """Read the finished runs in `folder` of the inputs that most of them have; others, and changed ones, are left out.

    Scores that another version made are made anew, and not stored. Raises MatrixError.
    """
    builds: dict[str, list[tuple[Cell, int, Path]]] = {}
    whole = 0
    for cell, seed, run in finished(matrix, folder):
        whole += 1
        if about := recorded(run):
            builds.setdefault(str(about.get("inputs")), []).append((cell, seed, run))
    if not builds:
        raise MatrixError(f"--beside: {folder}: every run was changed since it was made")
    inputs, chosen = max(builds.items(), key=lambda build: len(build[1]))
    gathered = Results(matrix, folder, left_out=whole - len(chosen))
    for cell, seed, run in chosen:
        try:
            scores = current_scores(Job(cell, seed, matrix.window_s, matrix.tail_s, inputs), run)
        except Exception as error:  # files of any version
            raise MatrixError(f"--beside: {run} cannot be scored: {type(error).__name__}: {error}") from error
        gathered.take(cell, seed, run, scores)
    gathered.derive()
    return gathered


def beside(ours: Results, theirs: Results, cells: Sequence[Cell]) -> Beside:
    """Put the runs of `theirs` beside ours, of these `cells` alone; what is within AGREEING_SIZE is called near."""
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
        "source": f"beside the runs in {theirs.folder}",
        "summaries": (),
        "expectations": (),
    }
    compared = replace(mine, matrix=matrix.model_copy(update=changed), theirs=THEIRS, other=other)
    here, there = ([cell.name for cell in side.cells] for side in sides)
    return Beside(
        compared,
        (origin(mine), origin(other)),
        tuple(name for name in here if name not in there),
        tuple(name for name in there if name not in here),
        _asked_otherwise(cells, theirs.folder),
    )


def origin(side: Results) -> dict[str, str]:
    """Return what made the runs of a side, by name, as the first of them has it: all of them have the same inputs."""
    runs = [run for by_seed in side.paths.values() for run in by_seed.values()]
    seeds = sorted({seed for by_seed in side.runs.values() for seed in by_seed})
    made = {"folder": str(side.folder)}
    if runs:
        of_cell, of_run = (json.loads((runs[0] / name).read_bytes()) for name in ("cell.json", RUN))
        git = of_run.get("git")
        made["Sojourn"] = f"{git['commit'][:12]}{' (changed)' * git['dirty']}" if git else "not recorded"
        made |= {name: str(text) for name, text in of_cell.get("kernel", {}).items()}
        made |= {name: str(of_cell[name]) for name in ("lab", "endpoints") if name in of_cell}
        made["inputs"] = str(of_run.get("inputs"))
    made["queues"] = "; ".join(_queues(side.cells))
    made["runs"] = f"{sum(map(len, side.runs.values()))} of {len(side.runs)} cells, seeds {', '.join(map(str, seeds))}"
    made["left out"] = f"{side.left_out} runs of other inputs, or changed since"
    return made


def _queues(cells: Sequence[Cell]) -> list[str]:
    ways = (way for cell in cells for hop in cell.hops for way in (hop.down, hop.up) if way)
    return list(dict.fromkeys(str(way.qdisc) for way in ways))


def _asked_otherwise(cells: Sequence[Cell], folder: Path) -> tuple[str, ...]:
    """The cells of `folder` that have a name of ours and another definition."""
    return tuple(
        cell.name
        for cell in cells
        if not cell_folder(folder, cell).is_dir()
        and any(re.fullmatch("[0-9a-f]{16}", path.name[len(cell.slug) + 1 :]) for path in folder.glob(f"{cell.slug}-*"))
    )


def _with_standard_columns(matrix: Matrix, cells: Sequence[Cell]) -> Matrix:
    """The matrix with a column for each flow's rate, each probe's P50 and P99, and Jain's index, if it has none."""
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
    """All that has one figure a run, of the columns and of the charts' bars."""
    yield from (column.metric for column in matrix.columns)
    yield from (
        metric for chart in matrix.charts if not (chart.ccdf or chart.over_time) for metric in chart.series.values()
    )
