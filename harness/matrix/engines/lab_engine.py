# SPDX-License-Identifier: Apache-2.0
"""Runs in real time, one after another in one lab, which is made with the first and undone after the last."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Self

from sojourn.harness.lab.contract import Lab, LabFactory
from sojourn.harness.matrix.cell import Cell
from sojourn.harness.matrix.cells.cell_run import Job, perform
from sojourn.harness.matrix.cells.real_time import run_cell
from sojourn.scoring.validity import Limits


class LabEngine:
    """One lab; `make` gives it, `limits` are those of its runs' gates.

    All is done in one thread: what a lab starts lives no longer than the thread that started it (LOCAL). After a run
    that fails the lab is made anew for the next one.
    """

    def __init__(self, make: Callable[[], LabFactory], limits: Limits) -> None:
        self._make, self._limits = make, limits
        self._thread = ThreadPoolExecutor(1)
        self._stopped = Event()
        self._up = ExitStack()
        self._lab: Lab | None = None

    def free(self, running: int) -> int:
        return 1 - running

    def submit(self, job: Job, folder: Path) -> Future[None]:
        return self._thread.submit(self._run, job, folder)

    def collect(self, result: None, folder: Path) -> None:
        pass

    def _run(self, job: Job, folder: Path) -> None:
        lab = self._lab = self._lab or self._up.enter_context(self._make())

        def run(cell: Cell, folder: Path, *, seed: int, **_: Any) -> None:
            run_cell(lab, cell, folder, seed=seed, limits=self._limits, stopped=self._stopped)

        try:
            perform(replace(job, run=run), folder)
        except BaseException:
            self._down()
            raise

    def _down(self) -> None:
        self._lab = None
        self._up.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()  # nothing runs any more unless we are interrupted
        self._thread.submit(self._down).result()
        self._thread.shutdown()
