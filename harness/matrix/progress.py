# SPDX-License-Identifier: Apache-2.0
"""The progress display of a running matrix."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from sojourn.harness.matrix.cells.cell_run import CellJob
from sojourn.harness.matrix.complete import JobOutcome

_SHOWN = 4
"""Number of running cells that the display has room for."""


class MatrixProgress:
    """The display of a running matrix: a bar and the running cells; without a terminal a line per twentieth."""

    def __init__(self, title: str, jobs: Sequence[CellJob], console: Console) -> None:
        self._console, self._title, self._jobs = console, title, jobs
        self._running: dict[tuple[str, int], None] = {}
        self._done = self._failed = 0
        self._lab_s, self._started = 0.0, time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[runs]}"),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[now]}", style="dim", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=sum(job.work for job in jobs), runs="", speed="", now="")

    @property
    def speed(self) -> float:
        """Seconds of lab time per second."""
        return self._lab_s / max(time.monotonic() - self._started, 1e-9)

    def begun(self, job: CellJob) -> None:
        """Show that a run has started."""
        self._running[job.cell.name, job.seed] = None
        self._show()

    def ended(self, outcome: JobOutcome) -> None:
        """Show the outcome of a run."""
        job = outcome.job
        self._running.pop((job.cell.name, job.seed), None)
        before = self._done * 20 // len(self._jobs)
        self._done += 1
        if outcome.status == "kept":  # no work: it must not distort the speed
            self._bar.update(self._task, total=(self._bar.tasks[0].total or 0) - job.work)
        else:
            self._bar.advance(self._task, job.work)
        if outcome.status == "ran":
            self._lab_s += job.cell.seconds
        if outcome.status == "failed":
            self._failed += 1
            self._console.print(Text(f"{job.cell.name}, seed {job.seed}: {outcome.error}", style="red"))
        self._show()
        if not self._console.is_terminal and self._done * 20 // len(self._jobs) > before:
            self._console.print(Text(f"{self._title}: {self._runs()}{f', {self._speed()}' if self._lab_s else ''}"))

    def _runs(self) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._done}/{len(self._jobs)} runs{failed}"

    def _speed(self) -> str:
        return f"{self.speed:.3g} s of lab time per s"

    def _show(self) -> None:
        names = [f"{name}#{seed}" for name, seed in self._running]
        now = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        self._bar.update(self._task, runs=self._runs(), speed=self._speed() if self._lab_s else "", now=now)

    def __enter__(self) -> MatrixProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
