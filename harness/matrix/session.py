# SPDX-License-Identifier: Apache-2.0
"""A matrix under pytest: all selected cells run in parallel, and each test waits for its own."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.lab.lab_file import PHYSICAL
from sojourn.harness.engine.job import EngineError
from sojourn.harness.matrix.capabilities import missing_capability
from sojourn.harness.matrix.complete import JobOutcome, complete
from sojourn.harness.matrix.matrix import Matrix, MatrixError, figure
from sojourn.harness.matrix.matrix_plan import MatrixPlan, prepare, seeds
from sojourn.harness.options.model import Options
from sojourn.scoring.schema.scores import SCORES
from sojourn.scoring.validity import Limits
from sojourn.traffic.user_program import UserProgram

Key = tuple[str, str]
"""A matrix's name and a lab."""


class MatrixSession:
    """The matrices of one session of tests, each in one lab or more."""

    def __init__(self, options: Options, command_line: Sequence[str] = ()) -> None:
        """`command_line` is as typed."""
        self._options, self._command_line = options, command_line
        self._plans: dict[Key, MatrixPlan] = {}
        self._inputs: dict[Key, tuple[str, tuple[UserProgram, ...]]] = {}
        self._running: dict[Key, Generator[JobOutcome]] = {}
        self._known: dict[Key, dict[str, list[JobOutcome]]] = {}

    def lab(self, matrix: Matrix) -> str:
        """Return the lab of the option, or the one that the matrix prefers."""
        return self._options.asked_lab or matrix.preferred_lab

    def measure(self, matrix: Matrix, cell: Cell, selected: Sequence[Cell]) -> list[str]:
        """Run `cell` with all its seeds, print its figures, return what it does not meet.

        Waits for the selected cells that its figures are derived from, too. Raises as `outcomes` does.
        """
        lab = self.lab(matrix)
        outcomes = self.outcomes(matrix, cell, selected, lab)
        for other in self._plans[matrix.name, lab].cells:
            if other.name in matrix.sources(cell.name) and not missing_capability(other, lab):
                outcomes += self.outcomes(matrix, other, selected, lab)
        return judged(matrix, cell, outcomes)

    def outcomes(self, matrix: Matrix, cell: Cell, selected: Sequence[Cell], lab: str) -> list[JobOutcome]:
        """Run `cell` in `lab` and return the outcomes of its runs, by seed.

        The first call starts all `selected` cells of the matrix. Raises MatrixError, EngineError or BuildError.
        """
        key = (matrix.name, lab)
        if key not in self._running:
            self._begin(key, matrix, selected)
        while len(outcomes := self._known[key].get(cell.name, [])) < len(self._plans[key].seeds):
            if not self._next(key):
                raise EngineError("the runner has stopped; see the first failed test of this matrix")
        return sorted(outcomes, key=lambda it: it.job.seed)

    def missed(self, matrix: Matrix, selected: Sequence[Cell]) -> list[str]:
        """Wait for all `selected` cells and return which correlations and contrasts are not met.

        Raises as `outcomes` does.
        """
        from sojourn.harness.matrix.results import results

        key = (matrix.name, self.lab(matrix))
        for cell in selected:
            self.outcomes(matrix, cell, selected, key[1])
        gathered = results(matrix, self._plans[key].folder, *self._inputs[key])
        for line in gathered.published_lines():
            print(line)
        for line, _ in gathered.targets():
            print(line)
        return gathered.missed()

    def _begin(self, key: Key, matrix: Matrix, selected: Sequence[Cell]) -> None:
        lab, options = key[1], self._options
        if lab != "sim":  # which must not be disturbed
            for other in self._running:
                while self._next(other):
                    pass
        plan = MatrixPlan(
            matrix,
            tuple(cell for cell in selected if not cell.needs),
            seeds(options.seed, options.repeat or matrix.repeat),
            options.results,
            options.engine,
            lab=lab,
            lab_file=options.lab_file if lab in PHYSICAL else None,
            limits=None if options.jitter_gate_ms is None else Limits(jitter_ms=options.jitter_gate_ms),
            kernel_source=options.kernel_source,
            iproute2_source=options.iproute2_source,
            exact=options.exact,
            command_line=self._command_line,
        )
        jobs, engine = prepare(plan)
        self._plans[key], self._known[key], self._inputs[key] = plan, {}, (jobs[0].inputs, jobs[0].programs)
        self._running[key] = complete(jobs, engine, plan.folder, keep=plan.lab != "sim")

    def _next(self, key: Key) -> bool:
        """Wait for the next run of a plan to end; False when there is none."""
        if outcome := next(self._running[key], None):
            self._known[key].setdefault(outcome.job.cell.name, []).append(outcome)
        return outcome is not None

    def close(self) -> list[Path]:
        """End running jobs; write the report of every matrix that ran and return the paths."""
        from sojourn.harness.matrix.pages.matrix_page import write
        from sojourn.harness.matrix.results import results

        for running in self._running.values():
            running.close()
        return [write(results(plan.matrix, plan.folder, *self._inputs[key])) for key, plan in self._plans.items()]


def scores(outcomes: Sequence[JobOutcome]) -> list[dict[str, Any]]:
    """Return the scores of runs. Raises MatrixError when one has failed."""
    for outcome in outcomes:
        if outcome.status == "failed":
            raise MatrixError(
                f"{outcome.job.cell.name}, seed {outcome.job.seed}: {outcome.error}; see {outcome.folder}"
            )
    return [json.loads((outcome.folder / SCORES).read_text()) for outcome in outcomes]


def judged(matrix: Matrix, cell: Cell, outcomes: Sequence[JobOutcome]) -> list[str]:
    """Print the figures of a cell's runs and return what they do not meet, one line each.

    `outcomes` are its own and those of the cells that its figures are derived from.
    """
    from sojourn.harness.matrix.results import Results

    gathered, failed = Results(matrix, Path()), []
    for outcome in outcomes:
        job = outcome.job
        if outcome.status != "failed":
            gathered.take(job.cell, job.seed, outcome.folder, json.loads((outcome.folder / SCORES).read_bytes()))
        elif job.cell == cell:
            failed.append(f"{cell.name}, seed {job.seed}: {outcome.error}; see {outcome.folder}")
    gathered.derive()
    for seed, scores in gathered.runs.get(cell.name, {}).items():
        with_values = ((column, figure(scores, column.metric)) for column in matrix.columns)
        figures = ", ".join(
            f"{column.head} {'–' if value is None else f'{value:.{column.digits}f}'}" for column, value in with_values
        )
        print(f"{cell.name}, seed {seed}: {figures}")
    return [*failed, *gathered.broken_by(cell)]
