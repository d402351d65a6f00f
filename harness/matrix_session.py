# SPDX-License-Identifier: Apache-2.0
"""A matrix under pytest: all cells that were selected run in parallel, and each test waits for its own."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from pathlib import Path

from harness.cell import Cell
from harness.cell_run import SCORES
from harness.engine import EngineError, Outcome, complete
from harness.matrix import Matrix, figure
from harness.matrix_run import Plan, prepare, seeds
from harness.options import Options


class MatrixSession:
    """The matrices of one session of tests."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._plans: dict[str, Plan] = {}
        self._running: dict[str, Generator[Outcome]] = {}
        self._known: dict[tuple[str, str], list[Outcome]] = {}

    def lab(self, matrix: Matrix) -> str:
        """The lab that was asked for, or the one that the matrix prefers."""
        return self._options.asked_lab or matrix.labs[0]

    def measure(self, matrix: Matrix, cell: Cell, selected: Sequence[Cell]) -> list[str]:
        """Run ``cell`` with all its seeds, print its figures, return what does not hold of it.

        The first call starts all ``selected`` cells of the matrix. Raises MatrixError, EngineError or BuildError.
        """
        if matrix.name not in self._running:
            self._begin(matrix, selected)
        plan, found = self._plans[matrix.name], self._known.setdefault((matrix.name, cell.name), [])
        while len(found) < len(plan.seeds):
            if not (outcome := next(self._running[matrix.name], None)):
                raise EngineError("the runner has ended, see the first test of this matrix that failed")
            self._known.setdefault((matrix.name, outcome.job.cell.name), []).append(outcome)
        return [broken for it in sorted(found, key=lambda it: it.job.seed) for broken in judged(matrix, it)]

    def _begin(self, matrix: Matrix, selected: Sequence[Cell]) -> None:
        options = self._options
        plan = Plan(
            matrix,
            tuple(cell for cell in selected if not cell.needs),
            seeds(options.seed, options.repeat or matrix.repeat),
            options.results,
            lab=self.lab(matrix),
            lab_file=options.lab_file,
        )
        jobs, engine = prepare(plan)
        self._plans[matrix.name] = plan
        self._running[matrix.name] = complete(jobs, engine, plan.folder)

    def close(self) -> list[Path]:
        """End what still runs; write the report of every matrix that ran and return where."""
        from harness.matrix_report import write

        for running in self._running.values():
            running.close()
        return [write(plan.matrix, plan.folder) for plan in self._plans.values()]


def judged(matrix: Matrix, outcome: Outcome) -> list[str]:
    """Print the figures of a run and return what does not hold of it, one line each."""
    cell, seed = outcome.job.cell, outcome.job.seed
    if outcome.status == "failed":
        return [f"seed {seed}: {outcome.error}; see {outcome.folder}"]
    scores = json.loads((outcome.folder / SCORES).read_text())
    told = ((column, figure(scores, column.metric)) for column in matrix.columns)
    figures = ", ".join(f"{column.head} {'–' if it is None else f'{it:.{column.digits}f}'}" for column, it in told)
    print(f"{cell.name}, seed {seed}: {figures}")
    broken = (expectation.broken(cell, scores) for expectation in matrix.expectations)
    return [f"seed {seed}: {why}" for why in broken if why]
