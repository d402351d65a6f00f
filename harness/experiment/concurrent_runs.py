# SPDX-License-Identifier: Apache-2.0
"""Runs in simulated time: as many side by side as an engine takes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from sojourn.apps import SERVICES
from sojourn.apps.base import Service
from sojourn.hardware import simulation
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import ProgressCallback
from sojourn.hardware.machine.signals import deferred_signals, ended_by_signals
from sojourn.harness.engine.job import Channel, Engine, Job, failure
from sojourn.harness.engine.local import LocalEngine, capacity
from sojourn.harness.experiment import simulated
from sojourn.harness.experiment.busy_host import BusyHost
from sojourn.harness.experiment.guest_news import SimulatedClock
from sojourn.harness.experiment.progress import ExperimentProgress
from sojourn.harness.experiment.recording import RecordedRun
from sojourn.harness.experiment.run import Begun, Result, fill_run, finish_run, new_run, perform, require_space
from sojourn.harness.experiment.series import PlannedRun, SeriesOfRuns
from sojourn.harness.lab.machine import MEMORY, Machine, SimulatedError
from sojourn.harness.options.model import Options
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.store.loaded import load_scores
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunDirectory, check_space
from sojourn.harness.terminal import QUIET_S, clock_text, console_of, steps

#: How long to wait at most for what runs report, s; a signal that comes just before the wait is seen after it.
_LOOK_S = 0.5
_SHARE_S = 1.0
#: With less of every unfinished experiment left, s, what takes time is scoring: a run reports now and then.
_SCORED_S = 3.0
#: Share of all runs from which the time left is shown: before, it is mostly how long a machine takes to start.
_SHOWN_SHARE = 0.03
#: Of a sweep, whose cells do not need each other.
_FAILURES_OF_SWEEP = 5


Requested = tuple[type[Service], Options]
"""The service that an experiment watches, and its options."""


def repeat_side_by_side(
    test: str,
    options: Options,
    command_line: Sequence[str],
    terminal: TextIO,
    begun: Begun = lambda _: None,
) -> Generator[Result]:
    """Run an experiment with a seed for each repetition that `options` require; yield the runs in order of seeds.

    `begun` gets the directory of each run before anything is recorded.

    Another seed replaces an invalid run (`SeriesOfRuns.instead_of`); without `--repeat` there is one run, valid or not.
    Leaving the iteration ends what still runs. When a run fails the others end well, and are yielded.

    Raises StoreError at once if the runs would not fit on the disk, errors of the preparation of a run, and
    SimulatedError that names the seeds of the runs that failed. With a processor for one run only, as
    `sojourn.harness.experiment.run.perform`. EngineError when the Dask cluster that the options name cannot make them.
    """
    console, service = console_of(terminal), SERVICES[options.service]
    series = SeriesOfRuns({"": options})
    require_space([run.options for run in series.waiting], options.results, console)
    create = partial(new_run, test, command_line=command_line, begun=begun)
    with ended_by_signals():
        if options.engine != LOCAL:
            engine = cluster([(service, options)], console)
            yield from side_by_side(series, engine, lambda run: SimulatedRun(service, run.options), create, console)
            return
        with steps(console) as step:
            player = service.from_options(options)
            machine = simulated.prepare(options, player, step)
        workers = capacity(min(series.wanted, len(os.sched_getaffinity(0))), simulation.fitting(machine.memory))
        if workers == 1:
            yield from one_by_one(
                series, lambda requested: perform(test, requested, command_line, terminal, begun), console
            )
        else:

            def job(run: PlannedRun) -> Job:
                return SimulatedRun(service, run.options, (player, machine))

            yield from side_by_side(series, LocalEngine(machine.bytes, workers), job, create, console)


def cluster(experiments: Sequence[Requested], console: Console) -> Engine:
    """Build what the runs of experiments need, and return the Dask cluster that they name, its workers checked.

    Raises BuildError, ServiceError, EngineError if a worker would give other results.
    """
    from sojourn.harness.engine.dask import DaskEngine

    with steps(console) as step:
        known = inputs(experiments, step)
    digest = partial(inputs, experiments)
    return DaskEngine(experiments[0][1].engine, known, digest, simulation.memory_bytes(MEMORY))


def inputs(experiments: Sequence[Requested], step: Callable[[str], ProgressCallback] | None = None) -> str:
    """Return a digest of everything that determines the runs, including films; builds what is missing.

    Raises BuildError, ServiceError.
    """
    parts = []
    for service, options in experiments:
        player = service.from_options(options)
        machine = simulated.prepare(options, player, step or (lambda _: lambda *_: None))
        parts += [("machine", machine.digest.encode())]
        parts += [(name, it.encode()) for name, it in simulated.films(options, player).items()]
    return cache.digest(parts)


def one_by_one(series: SeriesOfRuns, once: Callable[[Options], Result], console: Console) -> Generator[Result]:
    """Execute the runs of a series one after another with `once`, which shows its progress. Raises as `once` does."""
    while series.waiting:
        planned = series.waiting.popleft()
        if planned.options.repeat:
            console.print(Text(f"{series.title(planned)}; {planned.label}"))
        result = once(planned.options)
        if result.void and planned.options.repeat:
            console.print(Text(f"{planned.label}: {series.verdict(planned, result)}"))
        yield result


def side_by_side(
    series: SeriesOfRuns,
    engine: Engine,
    job: Callable[[PlannedRun], Job],
    create: Callable[[Options], RunDirectory],
    console: Console,
    *,
    sweep: bool = False,
) -> Generator[Result]:
    """Make the runs of a series on an engine, which is ended; `create` makes a run's directory, `job` fills it.

    Yields the results in the order of the series. In a `sweep`, only the ends of runs are shown, and further runs begin
    until several have failed. Raises EngineError, and SimulatedError as `repeat_side_by_side`.
    """
    running: dict[Path, tuple[PlannedRun, RunDirectory]] = {}
    ended: dict[PlannedRun, Result] = {}
    failed: dict[PlannedRun, str] = {}
    begun: list[PlannedRun] = []
    given, most_failed = 0, _FAILURES_OF_SWEEP if sweep else 0

    def begin(planned: PlannedRun) -> None:
        begun.append(planned)
        try:
            run = create(planned.options)
        except (RuntimeError, OSError) as error:
            fail(planned, failure(error))
            return
        running[run.path] = planned, run
        engine.submit(job(planned), run.path)
        if not sweep:
            board.say(planned, series.title(planned))

    def end(planned: PlannedRun, run: RunDirectory, error: str) -> None:
        try:
            if error:
                run.fail(Reason.of("failed", error))
            else:
                with run:
                    ended[planned] = finish_run(run, planned.options, load_scores(run.path))
        except (RuntimeError, OSError) as wrong:
            error = error or failure(wrong)
        board.finished(planned)
        if error:
            fail(planned, error)
        else:
            board.say(planned, series.verdict(planned, ended[planned]))

    def fail(planned: PlannedRun, error: str) -> None:
        failed[planned] = error
        others = f"; waiting for the other {len(running)}" if running else ""
        board.say(planned, f"failed: {error}{others}")

    try:
        with engine, _Board(series, console) as board:
            while running or (series.waiting and len(failed) <= most_failed):
                while series.waiting and len(failed) <= most_failed and engine.free(len(running)) > 0:
                    with deferred_signals():
                        begin(series.waiting.popleft())
                for folder, kind, what in engine.events(_LOOK_S):
                    planned, run = running[folder]
                    if kind == "line":
                        if not sweep:
                            board.say(planned, what)
                    elif kind == "done":
                        board.done[planned] = what
                    elif kind == "versions":
                        run.add_versions(what)
                    else:
                        del running[folder]
                        end(planned, run, what)
                board.show()
                while given < len(begun) and ((planned := begun[given]) in ended or planned in failed):
                    given += 1
                    if planned in ended:
                        yield ended[planned]
    except BaseException as stop:
        why = KeyboardInterrupt() if isinstance(stop, GeneratorExit) else stop
        with ExitStack() as every:  # one that raises, on a full disk, does not keep the others open
            for _, run in running.values():
                every.callback(run.__exit__, type(why), why, None)
        raise
    for planned in begun[given:]:
        if planned in ended:
            yield ended[planned]
    if failed:
        raise SimulatedError("; ".join(f"{planned.label}: {failed[planned]}" for planned in begun if planned in failed))


@dataclass(frozen=True)
class SimulatedRun:
    """A job that records an experiment in a machine of its own, and scores it."""

    service: type[Service]
    options: Options
    prepared: tuple[Service, Machine] | None = None
    """The service and the machine; None: they are made where the job runs."""

    def __call__(self, folder: Path, channel: Channel) -> None:
        def record(run: RecordedRun) -> None:
            clock = SimulatedClock()
            with _Reporter(self.options, clock, channel) as progress:
                simulated.record(self.options, service, run, progress, clock, machine)

        if self.prepared:
            service, machine = self.prepared
        else:
            service = self.service.from_options(self.options)
            machine = simulated.prepare(self.options, service, lambda _: lambda *_: None)
        fill_run(_Folder(folder, channel), self.options, record, channel.line)


@dataclass(frozen=True)
class _Folder:
    """A run's directory as a job sees it: versions go to the process that has the manifest."""

    path: Path
    channel: Channel

    def add_versions(self, versions: Mapping[str, str]) -> None:
        self.channel.versions(versions)

    def recorded(self) -> None:
        """Do nothing: the seed of a run that is stopped is repeated."""

    def check_space(self) -> None:
        self.channel.check()
        check_space(self.path)


class _Reporter(ExperimentProgress):
    """Reports a line per phase, and every second how far the experiment is, for a display of several runs."""

    def __init__(self, requested: Options, clock: Callable[[], float], channel: Channel) -> None:
        super().__init__(requested.cell, requested.phases, clock=clock)
        self._channel = channel

    def __enter__(self) -> ExperimentProgress:
        return self

    def say(self, text: str) -> None:
        self._channel.line(text)

    def passed(self, spent: float, done: float) -> None:
        if time.monotonic() - self._last_shown > _SHARE_S:
            self._last_shown = time.monotonic()
            self._channel.done(done)


class _Board:
    """The display of all runs: their lines, each with its label, and the time left."""

    def __init__(self, series: SeriesOfRuns, console: Console) -> None:
        self._series, self._console = series, console
        self.done: dict[PlannedRun, float] = {}
        """Elapsed seconds of the experiment, by run."""
        self._ended, self._host = 0, BusyHost()
        self._begun = self._last_shown = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn())
        self._bar = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=1.0)

    def __enter__(self) -> _Board:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, planned: PlannedRun, text: str) -> None:
        self._console.print(Text(f"{planned.label}: {text}"), soft_wrap=True)

    def finished(self, planned: PlannedRun) -> None:
        self.done[planned] = planned.options.seconds
        self._ended += 1

    def show(self) -> None:
        """Show the time left, always on a terminal and occasionally elsewhere, and once that the host is busy."""
        if busy := self._host.line():
            self._console.print(Text(busy))
        kept = self._series.kept
        over, now = sum(self.done.values()), time.monotonic()
        total = sum(planned.options.seconds for planned in self._series.runs if planned not in kept)
        worth_showing = over >= _SHOWN_SHARE * total
        # Machines take some seconds to start, and scoring has its own: the rate of all that was so far holds them.
        left = f"about {clock_text((now - self._begun) / over * (total - over))} left" if worth_showing else "starting"
        runs = len(self._series.runs) - len(kept)
        if total - over < _SCORED_S * (runs - self._ended):
            left = "scoring the last ones"
        text = f"{self._ended} of {runs} runs done, {left}"
        self._bar.update(self._task, completed=over / total, description=text)
        if self._bar.disable and worth_showing and now - self._last_shown > QUIET_S:
            self._last_shown = now
            self._console.print(Text(text))
