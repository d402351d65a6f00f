# SPDX-License-Identifier: Apache-2.0
"""Repetitions in simulated time: as many seeds side by side as an engine takes."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from sojourn.apps.base import Service
from sojourn.hardware import simulation
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.signals import deferred_signals, ended_by_sigterm
from sojourn.harness.engine.job import Channel, Engine, Job, failure
from sojourn.harness.engine.local import LocalEngine, capacity
from sojourn.harness.experiment import simulated
from sojourn.harness.experiment.guest_news import SimulatedClock
from sojourn.harness.experiment.progress import ExperimentProgress
from sojourn.harness.experiment.recording import RecordedRun
from sojourn.harness.experiment.run import SPARE, Begun, Result, fill_run, finish_run, new_run, perform, replacement
from sojourn.harness.lab.machine import MEMORY, Machine, SimulatedError
from sojourn.harness.options.model import Options
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.store.loaded import load_scores
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunDirectory, RunStore, check_space
from sojourn.harness.terminal import QUIET_S, ProgressCallback, clock_text, steps

#: How long to wait at most for what runs report, s; a signal that comes just before the wait is seen after it.
_LOOK_S = 0.5
_SHARE_S = 1.0
#: Share of all runs from which the time left is shown: before, it is mostly how long a machine takes to start.
_SHOWN_SHARE = 0.03


def repeat_side_by_side(
    test: str,
    options: Options,
    services: Mapping[str, type[Service]],
    command_line: Sequence[str],
    terminal: TextIO,
    begun: Begun = lambda _: None,
) -> Generator[Result]:
    """Run an experiment with a seed for each repetition that `options` require; yield the runs in order of seeds.

    `begun` gets the directory of each run before anything is recorded.

    A void run would be void again with its seed: the next one takes its place, `sojourn.harness.experiment.run.SPARE`
    times in all; without `--repeat` there is one run, void or not. Leaving the iteration ends what still runs. When a
    run fails the others end well, and are yielded.

    Raises StoreError at once if the runs would not fit on the disk, errors of the preparation of a run, and
    SimulatedError that names the seeds of the runs that failed. With a processor for one run only, as
    `sojourn.harness.experiment.run.perform`. EngineError when the Dask cluster that the options name cannot make them.
    """
    console, service = Console(file=terminal), services[options.service]
    series = SeedSeries(options)
    RunStore(options.results).check(options.needed_bytes * series.wanted)
    create = partial(new_run, test, command_line=command_line, begun=begun)
    with ended_by_sigterm():
        if options.engine != LOCAL:
            engine = cluster(options, service, console)
            yield from side_by_side(series, engine, partial(SimulatedRun, service), create, console)
            return
        with steps(console) as step:
            player = service.from_options(options)
            machine = simulated.prepare(options, player, step)
        workers = capacity(min(series.wanted, len(os.sched_getaffinity(0))), simulation.fitting(machine.memory))
        if workers == 1:
            yield from one_by_one(
                series, lambda requested: perform(test, requested, services, command_line, terminal, begun), console
            )
        else:
            run = partial(SimulatedRun, service, prepared=(player, machine))
            yield from side_by_side(series, LocalEngine(machine.bytes, workers), run, create, console)


def cluster(options: Options, service: type[Service], console: Console) -> Engine:
    """Build what runs need, and return the Dask cluster that `options` name, its workers checked.

    Raises BuildError, ServiceError, EngineError if a worker would give other results.
    """
    from sojourn.harness.engine.dask import DaskEngine

    with steps(console) as step:
        known = inputs(options, service, step)
    digest = partial(inputs, options, service)
    return DaskEngine(options.engine, known, digest, simulation.memory_bytes(MEMORY))


def inputs(options: Options, service: type[Service], step: Callable[[str], ProgressCallback] | None = None) -> str:
    """Return a digest of everything that determines such a run, including its film; builds what is missing.

    Raises BuildError, ServiceError.
    """
    player = service.from_options(options)
    machine = simulated.prepare(options, player, step or (lambda _: lambda *_: None))
    films = simulated.films(options, player)
    return cache.digest([("machine", machine.digest.encode()), *((name, it.encode()) for name, it in films.items())])


class SeedSeries:
    """The runs still to start, in order of seeds, and the replacements of invalid ones."""

    def __init__(self, options: Options) -> None:
        self.wanted = options.repeat or 1
        self.waiting = deque(options.repetition(number) for number in range(1, self.wanted + 1))
        self.seeds = [requested.seed for requested in self.waiting]
        self._last = options.seed + self.wanted - 1 + (SPARE if options.repeat else 0)

    def instead_of(self, void: Options) -> Options | None:
        """Add and return a run with the next seed and the order of an invalid run; None after enough attempts."""
        if self.seeds[-1] == self._last:
            return None
        other = replacement(void, self.seeds[-1])
        self.seeds.append(other.seed)
        self.waiting.append(other)
        return other

    def title(self, requested: Options) -> str:
        """Return a short description of a run."""
        order = ", ".join(phase.name for phase in requested.phases if phase.contender)
        number = self.seeds.index(requested.seed) + 1
        place = f"run {number} of {self.wanted}" if number <= self.wanted else "a further run"
        return f"{place}: {order or 'no contender'}"

    def verdict(self, requested: Options, result: Result) -> str:
        """Return how a run ended; an invalid one adds a replacement."""
        if not result.void:
            return "valid"
        other = self.instead_of(requested)
        return "invalid: " + "; ".join(result.void) + (f"; replaced by seed {other.seed}" if other else "")


def one_by_one(series: SeedSeries, once: Callable[[Options], Result], console: Console) -> Generator[Result]:
    """Execute the runs of a series one after another with `once`, which shows its progress."""
    while series.waiting:
        requested = series.waiting.popleft()
        console.print(Text(f"{series.title(requested)}; seed {requested.seed}"))
        result = once(requested)
        if result.void:
            console.print(Text(f"seed {requested.seed}: {series.verdict(requested, result)}"))
        yield result


def side_by_side(
    series: SeedSeries,
    engine: Engine,
    job: Callable[[Options], Job],
    create: Callable[[Options], RunDirectory],
    console: Console,
) -> Generator[Result]:
    """Make the runs of a series on an engine, which is ended; `create` makes a run's directory, `job` fills it.

    Raises EngineError, and SimulatedError as `repeat_side_by_side`.
    """
    running: dict[Path, tuple[Options, RunDirectory]] = {}
    ended: dict[int, Result] = {}
    failed: dict[int, str] = {}
    given = 0

    def begin(requested: Options) -> None:
        try:
            run = create(requested)
        except (RuntimeError, OSError) as error:
            fail(requested, failure(error))
            return
        running[run.path] = requested, run
        engine.submit(job(requested), run.path)
        board.say(requested.seed, series.title(requested))

    def end(requested: Options, run: RunDirectory, error: str) -> None:
        try:
            if error:
                run.fail(Reason.of("failed", error))
            else:
                with run:
                    ended[requested.seed] = finish_run(run, requested, load_scores(run.path))
        except (RuntimeError, OSError) as wrong:
            error = error or failure(wrong)
        board.finished(requested)
        if error:
            fail(requested, error)
        else:
            board.say(requested.seed, series.verdict(requested, ended[requested.seed]))

    def fail(requested: Options, error: str) -> None:
        failed[requested.seed] = error
        others = f"; waiting for the other {len(running)}" if running else ""
        board.say(requested.seed, f"failed: {error}{others}")

    try:
        with engine, _Board(series, console) as board:
            while running or (series.waiting and not failed):
                while series.waiting and not failed and engine.free(len(running)) > 0:
                    with deferred_signals():
                        begin(series.waiting.popleft())
                for folder, kind, what in engine.events(_LOOK_S):
                    requested, run = running[folder]
                    if kind == "line":
                        board.say(requested.seed, what)
                    elif kind == "done":
                        board.done[requested.seed] = what
                    elif kind == "versions":
                        run.add_versions(what)
                    else:
                        del running[folder]
                        end(requested, run, what)
                board.show()
                while given < len(series.seeds) and (seed := series.seeds[given]) in ended:
                    given += 1
                    yield ended[seed]
    except BaseException as stop:
        why = KeyboardInterrupt() if isinstance(stop, GeneratorExit) else stop
        for _, run in running.values():
            run.__exit__(type(why), why, None)
        raise
    for seed in series.seeds[given:]:
        if seed in ended:
            yield ended[seed]
    if failed:
        raise SimulatedError("; ".join(f"seed {seed}: {why}" for seed, why in sorted(failed.items())))


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
            service, machine = self.service.from_options(self.options), simulated.machine_of(self.options)
            service.prepare()
        fill_run(_Folder(folder, channel), self.options, record, channel.line)


@dataclass(frozen=True)
class _Folder:
    """A run's directory as a job sees it: versions go to the process that has the manifest."""

    path: Path
    channel: Channel

    def add_versions(self, versions: Mapping[str, str]) -> None:
        self.channel.versions(versions)

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
    """The display of all runs: their lines, each with its seed, and the time left."""

    def __init__(self, series: SeedSeries, console: Console) -> None:
        self._series, self._console = series, console
        self.done: dict[int, float] = {}
        """Elapsed seconds of the experiment, by seed."""
        self._ended = 0
        self._begun = self._last_shown = time.monotonic()
        self._all = sum(phase.seconds for phase in series.waiting[0].phases)
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

    def say(self, seed: int, text: str) -> None:
        self._console.print(Text(f"seed {seed}: {text}"))

    def finished(self, requested: Options) -> None:
        self.done[requested.seed] = self._all
        self._ended += 1

    def show(self) -> None:
        """Show the time left: always on a terminal, occasionally elsewhere."""
        runs, over, now = len(self._series.seeds), sum(self.done.values()), time.monotonic()
        total = runs * self._all
        worth_showing = over >= _SHOWN_SHARE * total
        # Machines take some seconds to start, and scoring has its own: the rate of all that was so far holds them.
        left = f"about {clock_text((now - self._begun) / over * (total - over))} left" if worth_showing else "starting"
        text = f"{self._ended} of {runs} runs done, {left}"
        self._bar.update(self._task, completed=over / total, description=text)
        if self._bar.disable and worth_showing and now - self._last_shown > QUIET_S:
            self._last_shown = now
            self._console.print(Text(text))
