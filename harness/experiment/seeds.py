# SPDX-License-Identifier: Apache-2.0
"""Repetitions in simulated time: as many seeds side by side as there are processors and memory for.

Each run has a process of its own, with a machine in it: a run that dies takes no other along.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Literal, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from sojourn.apps.base import Service
from sojourn.hardware import simulation
from sojourn.hardware.machine.memory import available_bytes
from sojourn.harness.experiment import simulated
from sojourn.harness.experiment.guest_news import SimulatedClock
from sojourn.harness.experiment.progress import ExperimentProgress
from sojourn.harness.experiment.run import SPARE, Result, ended_by_sigterm, fill_run, keep_run, perform
from sojourn.harness.lab.machine import Machine, SimulatedError
from sojourn.harness.options.model import Options
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.store.runs import RunDirectory, RunStore
from sojourn.harness.terminal import QUIET_S, clock_text, steps
from sojourn.scoring.schema.scores import Scores

#: How long to wait at most for what runs tell, s; a signal that comes just before the wait is seen after it.
_LOOK_S = 0.5
#: A run that is told to end ends its machine, and hashes what was recorded.
_GRACE_S = 30.0
_SHARE_S = 1.0
#: Share of all runs from which the time left is told: before, it is mostly how long a machine takes to start.
_TOLD_SHARE = 0.03


class Tell(Protocol):
    """Takes what a run tells: a line for the user, or the seconds of the experiment that are over."""

    def __call__(self, kind: Literal["line", "done"], what: Any) -> None: ...


Job = Callable[[Options, Tell], Result]
"""Makes one run in a process of its own; to be pickled."""


def repeat_side_by_side(
    test: str,
    options: Options,
    services: Mapping[str, type[Service]],
    command_line: Sequence[str],
    terminal: TextIO,
) -> Generator[Result]:
    """Run an experiment with a seed for each repetition that `options` ask for; yield the runs in order of seeds.

    A void run would be void again with its seed: the next one takes its place, `sojourn.harness.experiment.run.SPARE`
    times in all. Leaving the iteration ends what still runs. When a run fails those beside it end well, and are
    yielded.

    Raises StoreError at once when not all runs would fit on the disk, what hinders the preparation of a run, and
    SimulatedError that names the seeds of the runs that failed. With a processor for one run only, as
    `sojourn.harness.experiment.run.perform`. EngineError when the Dask cluster that the options name cannot make them.
    """
    console = Console(file=terminal)
    series = SeedSeries(options)
    RunStore(options.results).check(options.needed_bytes * series.wanted)
    if options.engine != LOCAL:
        yield from _on_dask(series, test, options, services[options.service], command_line, console)
        return
    service = services[options.service].from_options(options)
    with ended_by_sigterm():
        with steps(console) as step:
            machine = simulated.prepare(options, service, step)
        workers = places(series.wanted, simulation.fitting(machine.memory))
        if workers == 1:
            yield from one_by_one(series, lambda asked: perform(test, asked, services, command_line, terminal), console)
        else:
            job = SimulatedRun(test, service, machine, tuple(command_line))

            def room(running: int) -> bool:
                return running < workers and simulation.fitting(machine.memory) > 0

            yield from side_by_side(series, job, room, console)


def _on_dask(
    series: SeedSeries,
    test: str,
    options: Options,
    service: type[Service],
    command_line: Sequence[str],
    console: Console,
) -> Generator[Result]:
    from sojourn.harness.experiment.dask_seeds import dask_run
    from sojourn.harness.matrix.engines.dask_engine import WAITING_BYTES, connected, places

    with ended_by_sigterm():
        job = dask_run(test, options, service, command_line, console)
        with connected(options.engine) as client:

            def room(running: int) -> bool:
                return running < places(client) and available_bytes() > WAITING_BYTES

            yield from side_by_side(series, job, room, console)


class SeedSeries:
    """Which runs are to be begun yet, in the order of their seeds, and what takes the place of void ones."""

    def __init__(self, options: Options) -> None:
        self.wanted = options.repeat or 1
        self.waiting = deque(options.repetition(number) for number in range(1, self.wanted + 1))
        self.seeds = [asked.seed for asked in self.waiting]
        self._last = options.seed + self.wanted + SPARE - 1

    def instead_of(self, void: Options) -> Options | None:
        """Add and return a run with the next seed and the order of a void one; None when enough were tried."""
        if self.seeds[-1] == self._last:
            return None
        other = void.replace(seed=self.seeds[-1] + 1)
        self.seeds.append(other.seed)
        self.waiting.append(other)
        return other

    def title(self, asked: Options) -> str:
        """Say in a few words which run that is."""
        order = ", ".join(phase.name for phase in asked.phases if phase.contender)
        number = self.seeds.index(asked.seed) + 1
        place = f"run {number} of {self.wanted}" if number <= self.wanted else "a run more"
        return f"{place}: {order or 'no contender'}"

    def verdict(self, asked: Options, result: Result) -> str:
        """Say how a run ended; one more waits afterwards where it takes a void one's place."""
        if not result.void:
            return "valid"
        other = self.instead_of(asked)
        return "void: " + "; ".join(result.void) + (f"; seed {other.seed} takes its place" if other else "")


def places(wanted: int, fitting: int) -> int:
    """Return how many runs go side by side: one for each of our processors, no more than `fitting` but one."""
    return max(1, min(wanted, len(os.sched_getaffinity(0)), fitting))


def one_by_one(series: SeedSeries, once: Callable[[Options], Result], console: Console) -> Generator[Result]:
    """Make the runs of a series in turn by `once`, which shows each as it goes."""
    while series.waiting:
        asked = series.waiting.popleft()
        console.print(Text(f"{series.title(asked)}; seed {asked.seed}"))
        result = once(asked)
        if result.void:
            console.print(Text(f"seed {asked.seed}: {series.verdict(asked, result)}"))
        yield result


def side_by_side(series: SeedSeries, job: Job, room: Callable[[int], bool], console: Console) -> Generator[Result]:
    """Make the runs of a series by `job`; one begins beside so many others only while there is `room` for it.

    Raises SimulatedError as `repeat_side_by_side`.
    """
    running: dict[Connection, _Worker] = {}
    ended: dict[int, Result] = {}
    failed: dict[int, str] = {}
    given = 0
    try:
        with _Board(series, console) as board:
            while running or (series.waiting and not failed):
                while series.waiting and not failed and (not running or room(len(running))):
                    worker = _Worker(job, series.waiting.popleft())
                    running[worker.connection] = worker
                    board.say(worker.seed, series.title(worker.asked))
                for ready in wait(list(running), _LOOK_S):
                    worker = running[ready]  # type: ignore[index]  # of processes only connections are waited for
                    kind, what = worker.hear()
                    if kind == "line":
                        board.say(worker.seed, what)
                    elif kind == "done":
                        board.done[worker.seed] = what
                    else:
                        del running[worker.connection]
                        worker.end()
                        if kind == "result":
                            ended[worker.seed] = what
                            board.say(worker.seed, series.verdict(worker.asked, what))
                        else:
                            failed[worker.seed] = what
                            others = f"; waiting for the other {len(running)}" if running else ""
                            board.say(worker.seed, f"failed: {what}{others}")
                        board.finished(worker.asked)
                board.tell()
                while given < len(series.seeds) and (seed := series.seeds[given]) in ended:
                    given += 1
                    yield ended[seed]
        for seed in series.seeds[given:]:
            if seed in ended:
                yield ended[seed]
        if failed:
            raise SimulatedError("; ".join(f"seed {seed}: {why}" for seed, why in sorted(failed.items())))
    finally:
        for worker in running.values():
            worker.process.terminate()
        for worker in running.values():
            worker.end()


@dataclass(frozen=True)
class SimulatedRun:
    """A job that makes an experiment's run in a machine of its own."""

    test: str
    service: Service
    machine: Machine
    command_line: tuple[str, ...]

    def __call__(self, asked: Options, tell: Tell) -> Result:
        def fill(run: RunDirectory) -> Scores:
            return simulate(asked, self.service, self.machine, run, tell)

        return keep_run(self.test, asked, self.command_line, fill)


def simulate(asked: Options, service: Service, machine: Machine, run: RunDirectory, tell: Tell) -> Scores:
    """Fill a run's directory by an experiment with a prepared `service` in a machine of its own, and score it."""

    def record(run: RunDirectory) -> None:
        clock = SimulatedClock()
        with _Reporter(asked, clock, tell) as progress:
            simulated.record(asked, service, run, progress, clock, machine)

    return fill_run(run, asked, record, lambda text: tell("line", text))


class _Reporter(ExperimentProgress):
    """Tells a line for each phase, and every second how far it is, to who shows several runs at once."""

    def __init__(self, asked: Options, clock: Callable[[], float], tell: Tell) -> None:
        super().__init__(asked.cell, asked.phases, clock=clock)
        self._tell = tell

    def __enter__(self) -> ExperimentProgress:
        return self

    def say(self, text: str) -> None:
        self._tell("line", text)

    def passed(self, spent: float, done: float) -> None:
        if time.monotonic() - self._told > _SHARE_S:
            self._told = time.monotonic()
            self._tell("done", done)


class _Board:
    """What the user sees of all runs: their lines, each with its seed, and the time left."""

    def __init__(self, series: SeedSeries, console: Console) -> None:
        self._series, self._console = series, console
        self.done: dict[int, float] = {}
        """Seconds of the experiment that are over, by seed."""
        self._ended = 0
        self._begun = self._told = time.monotonic()
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

    def finished(self, asked: Options) -> None:
        self.done[asked.seed] = self._all
        self._ended += 1

    def tell(self) -> None:
        """Show the time left: on a terminal always, elsewhere now and then."""
        runs, over, now = len(self._series.seeds), sum(self.done.values()), time.monotonic()
        total = runs * self._all
        worth_telling = over >= _TOLD_SHARE * total
        # Machines take some seconds to start, and scoring has its own: the rate of all that was so far holds them.
        left = f"about {clock_text((now - self._begun) / over * (total - over))} left" if worth_telling else "starting"
        text = f"{self._ended} of {runs} runs done, {left}"
        self._bar.update(self._task, completed=over / total, description=text)
        if self._bar.disable and worth_telling and now - self._told > QUIET_S:
            self._told = now
            self._console.print(Text(text))


class _Worker:
    """A run in its process, as seen from the one that shows all."""

    def __init__(self, job: Job, asked: Options) -> None:
        self.asked, self.seed = asked, asked.seed
        # Not forked: polars' threads do not survive it.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(target=_work, args=(job, asked, theirs))
        with _ctrl_c_blocked():
            self.process.start()
        theirs.close()

    def hear(self) -> tuple[str, Any]:
        """Return the next that it tells: `line`, `done`, `result` or `failed`, and what."""
        try:
            kind, what = self.connection.recv()
        except (EOFError, OSError):  # killed, perhaps in the middle of what it told
            self.process.join(_GRACE_S)
            return "failed", f"its process ended with {self.process.exitcode} (out of memory? killed?)"
        return kind, what

    def end(self) -> None:
        """Wait for the end of a process that is ending."""
        self.process.join(_GRACE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """A terminal sends Ctrl-C to all processes: one that is starting would tell it in a screenful."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(job: Job, asked: Options, connection: Connection) -> None:
    """Make a run, and tell what became of it."""

    def tell(kind: str, what: Any) -> None:
        with suppress(BrokenPipeError):  # nobody hears any more: we are ended for that
            connection.send((kind, what))

    try:
        with ended_by_sigterm():
            # Who started us decides. No SIG_IGN: programs that we start would have it too.
            signal.signal(signal.SIGINT, lambda *_: None)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            _end_with_parent()
            tell("result", job(asked, tell))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGTERM)
    except Exception as error:
        if not isinstance(error, RuntimeError | OSError):
            traceback.print_exc()
        tell("failed", f"{type(error).__name__}: {error}")
        sys.exit(1)


def _end_with_parent() -> None:
    """End this process in order when the one that started it is no more."""
    parent = multiprocessing.parent_process()
    assert parent

    def follow() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE_S)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=follow, daemon=True).start()
