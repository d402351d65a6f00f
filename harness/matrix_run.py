# SPDX-License-Identifier: Apache-2.0
"""A whole matrix: its runs on an engine, what a person sees meanwhile, then the report."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from harness.cell import Cell
from harness.cell_run import Endpoints, Job, inputs_digest, standing
from harness.engine import Engine, EngineError, LocalEngine, Outcome, complete
from harness.matrix import Matrix, MatrixError, finished
from harness.progress import named, steps

LOCAL = "local"
_WIDE = 160
"""Columns of a table that goes to a file."""
_SHOWN = 4
"""Names of running cells that the display has room for."""


@dataclass(frozen=True)
class Plan:
    """What is to be run, and how."""

    matrix: Matrix
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]
    results: Path
    engine: str = LOCAL
    """``local``, or the address of a Dask scheduler."""
    workers: int | None = None
    again: bool = False
    endpoints: Endpoints = "bulk"

    @property
    def folder(self) -> Path:
        """Where the runs of the matrix are kept."""
        return self.results / self.matrix.name


def seeds(first: int, count: int) -> tuple[int, ...]:
    """Return ``count`` seeds from ``first`` on."""
    return tuple(range(first, first + count))


def prepare(plan: Plan, console: Console | None = None) -> tuple[list[Job], Engine]:
    """Build what is missing and return the runs of a plan and what will run them.

    Raises MatrixError, EngineError or BuildError.
    """
    if "sim" not in plan.matrix.labs:
        raise MatrixError(f"matrix {plan.matrix.name} does not run in simulated time, only in {plan.matrix.labs[0]}")
    if plan.engine != LOCAL and "://" not in plan.engine:
        raise EngineError(f"--engine: {plan.engine!r} is neither local nor dask://HOST:PORT")
    inputs = _inputs(plan.endpoints, console)
    plan.folder.mkdir(parents=True, exist_ok=True)
    matrix = plan.matrix
    jobs = [
        Job(cell, seed, matrix.window_s, matrix.tail_s, inputs, plan.endpoints)
        for cell in plan.cells
        for seed in plan.seeds
    ]
    if plan.engine == LOCAL:
        return jobs, LocalEngine(plan.workers)
    from harness.dask_engine import DaskEngine

    return jobs, DaskEngine(plan.engine.replace("dask://", "tcp://"), inputs, plan.endpoints)


def _inputs(endpoints: Endpoints, console: Console | None) -> str:
    from hardware.build import ensure_kernel
    from hardware.guest import ensure_guest

    with steps(console) as step:
        ensure_guest(progress=named(step("guest root")))
        ensure_kernel(progress=named(step("kernel")))
    return inputs_digest(endpoints)


def run_matrix(plan: Plan, console: Console | None = None) -> list[Outcome]:
    """Run a plan, showing how far it is, and return what became of every run; the longest begin first."""
    console = console or Console(stderr=True)
    jobs, engine = prepare(plan, console)
    jobs.sort(key=lambda job: -job.work)
    with MatrixProgress(plan.matrix.name, jobs, console) as progress:
        outcomes = []
        for outcome in complete(jobs, engine, plan.folder, again=plan.again, begun=progress.begun):
            progress.ended(outcome)
            outcomes.append(outcome)
    return outcomes


def run_and_report(plan: Plan) -> list[Outcome]:
    """Run a plan, write and print its report, tell every failure; return those that failed."""
    from harness.matrix_report import summary, table, write

    console, began = Console(stderr=True), time.monotonic()
    outcomes = run_matrix(plan, console)
    ran = time.monotonic() - began
    report = write(plan.matrix, plan.folder)
    counts = {status: sum(it.status == status for it in outcomes) for status in ("ran", "kept", "failed")}
    simulated = sum(it.job.cell.seconds for it in outcomes if it.status == "ran")
    speed = f", {simulated / ran:.0f} simulated s per s" if simulated else ""
    told = ", ".join(f"{count} {_TOLD[status]}" for status, count in counts.items() if count)
    out = Console(width=None if sys.stdout.isatty() else _WIDE)
    out.print(table(plan.matrix, plan.folder))
    for line in summary(plan.matrix, plan.folder):
        out.print(Text(line))
    out.print(Text(f"{told} in {time.monotonic() - began:.1f} s{speed}"))
    if old := sum(standing(outcomes[0].job, run) == "stale" for _, _, run in finished(plan.matrix, plan.folder)):
        out.print(Text(f"{old} of the runs reported are of another kernel, guest or source; run them to renew them"))
    print(report)
    failed = [it for it in outcomes if it.status == "failed"]
    for it in failed:
        print(f"sojourn: {it.job.cell.name}, seed {it.job.seed}: {it.error}; see {it.folder}", file=sys.stderr)
    return failed


_TOLD = {"ran": "runs made", "kept": "kept as they were", "failed": "failed"}


def endpoints_named(text: str) -> Endpoints:
    """Return the endpoints of that name. Raises EngineError when there are none."""
    known: tuple[Endpoints, ...] = ("bulk", "iperf3")
    for name in known:
        if name == text:
            return name
    raise EngineError(f"--endpoints: unknown {text!r}; known: {', '.join(known)}")


def matrices_table(found: Iterable[Matrix]) -> Table:
    """Return a table of matrices: cells, runs and simulated time of each."""
    table = Table("matrix", "", "cells", "runs", "simulated", "lab", box=None, pad_edge=False, header_style="dim")
    for matrix in found:
        lacking = len(matrix.cells) - len(matrix.runnable)
        cells = f"{len(matrix.runnable)}" + (f" (+{lacking})" if lacking else "")
        seconds = sum(cell.seconds for cell in matrix.runnable) * matrix.repeat
        runs = len(matrix.runnable) * matrix.repeat
        table.add_row(matrix.name, matrix.title, cells, str(runs), _hours(seconds), ", ".join(matrix.labs))
    return table


def cells_table(plan: Plan) -> Table:
    """Return a table of the cells of a plan and of what the others of its matrix need."""
    table = Table("cell", "simulated", "finished", box=None, pad_edge=False, header_style="dim")
    done = Counter(cell.name for cell, _, _ in finished(plan.matrix, plan.folder))
    for cell in plan.cells:
        table.add_row(cell.name, f"{cell.seconds:g} s", str(done[cell.name] or ""))
    for cell in plan.matrix.cells:
        if cell.needs:
            table.add_row(cell.name, f"needs {cell.needs}", "")
    return table


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"


class MatrixProgress:
    """The display of a matrix that runs: a bar and what runs now; off a terminal a line each twentieth."""

    def __init__(self, title: str, jobs: Sequence[Job], console: Console) -> None:
        self._console, self._title, self._jobs = console, title, jobs
        self._running: dict[tuple[str, int], None] = {}
        self._done = self._failed = 0
        self._simulated, self._started = 0.0, time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[runs]}"),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[now]}", style="dim"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=sum(job.work for job in jobs), runs="", speed="", now="")

    @property
    def speed(self) -> float:
        """Seconds simulated in a second."""
        return self._simulated / max(time.monotonic() - self._started, 1e-9)

    def begun(self, job: Job) -> None:
        """Say that a run has begun."""
        self._running[job.cell.name, job.seed] = None
        self._show()

    def ended(self, outcome: Outcome) -> None:
        """Say what became of a run."""
        job = outcome.job
        self._running.pop((job.cell.name, job.seed), None)
        before = self._done * 20 // len(self._jobs)
        self._done += 1
        if outcome.status == "kept":  # no work: it must not make the rest look quick
            self._bar.update(self._task, total=(self._bar.tasks[0].total or 0) - job.work)
        else:
            self._bar.advance(self._task, job.work)
        if outcome.status == "ran":
            self._simulated += job.cell.seconds
        if outcome.status == "failed":
            self._failed += 1
            self._console.print(Text(f"{job.cell.name}, seed {job.seed}: {outcome.error}", style="red"))
        self._show()
        if not self._console.is_terminal and self._done * 20 // len(self._jobs) > before:
            self._console.print(Text(f"{self._title}: {self._runs()}{f', {self._speed()}' if self._simulated else ''}"))

    def _runs(self) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._done}/{len(self._jobs)} runs{failed}"

    def _speed(self) -> str:
        return f"{self.speed:.0f} simulated s per s"

    def _show(self) -> None:
        names = [f"{name}#{seed}" for name, seed in self._running]
        now = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        self._bar.update(self._task, runs=self._runs(), speed=self._speed() if self._simulated else "", now=now)

    def __enter__(self) -> MatrixProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
