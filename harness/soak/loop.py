# SPDX-License-Identifier: Apache-2.0
"""The soak itself: run after run until its time is up, with the handling of failures."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from pathlib import Path
from types import FrameType

import psutil

from sojourn.hardware.lab.lab_file import PHYSICAL
from sojourn.hardware.machine.files import is_full, sync_folder
from sojourn.hardware.machine.memory import available_bytes
from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.scratch import sweep
from sojourn.hardware.simulation import fitting, memory_bytes
from sojourn.harness.lab.machine import MEMORY
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.soak import leaks, state
from sojourn.harness.soak.child import Task
from sojourn.harness.soak.disk import free_bytes, make_room
from sojourn.harness.soak.plan import PlanError, PlanFile, PlannedCell, SoakPlan
from sojourn.harness.soak.rounds import ScheduledRun, expected_s, next_runs, quarantined
from sojourn.harness.soak.state import Attempt, Batch, BatchDirectory, Outcome
from sojourn.harness.soak.status import saved_plan
from sojourn.harness.soak.supervise import Ended, supervise
from sojourn.harness.store.integrity import IntegrityError, verify_run
from sojourn.harness.store.manifest import PARTIAL, REPORT, StoreError
from sojourn.harness.store.reasons import Reason

#: The process that executes a run or checks a lab; arguments: `run` or `check`, and a task as JSON.
CHILD = (sys.executable, "-m", "sojourn.harness.soak.child")
#: The first check may build a kernel.
_CHECK_LIMIT_S = 3600.0
#: How long a physical lab may take to recover after a failed run, and the interval of checks, s.
_BACK_S, _RECHECK_S = 300.0, 5.0
_LOOK_S = 0.5
#: Of memory, for a process that waits for a run on a cluster.
_WAITING_BYTES = 400 << 20
#: A year, so that a batch's end is a date.
_MOST_H = 8784
_KILLED = Reason.of("killed", "the soak was killed, or the machine restarted, while it ran")
_NO_RUN = Reason.of("no-run", "it ended well, but left no run")


class SoakExit(IntEnum):
    """Exit codes; a soak that was stopped by a signal ends with 128 and its number."""

    ALL_VALID = 0
    SOME_NOT = 1
    BAD_PLAN = 2
    LAB_BROKEN = 3
    DISK_FULL = 4
    BUSY = 5
    UNEXPECTED = 6


@dataclass
class Stop:
    """Whether the user stopped the soak: SIGINT, SIGTERM or SIGHUP arrived."""

    signals: list[int] = field(default_factory=list)

    def __call__(self) -> bool:
        return bool(self.signals)

    def listen(self) -> None:
        """Take the signals from now on."""

        def take(number: int, _: FrameType | None) -> None:
            self.signals.append(number)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as by nohup
                signal.signal(number, take)


def begin(plan: SoakPlan, hours: float | None, *, new: bool = False) -> BatchDirectory | None:
    """Return the batch to continue: the last one if its time is not up, otherwise a new one of `hours`.

    Without `hours`, a batch is only resumed: None if there is none. Raises PlanError if the last batch continues but
    was begun with another plan, or when the time is too short for one round; StateError, OSError.
    """
    last = next(reversed(state.batches(plan.results)), None)
    if last and not new and resumable(batch := last.batch):
        if batch.plan != plan.digest:
            raise PlanError(
                f"{plan.path}: the batch {last.path.name} was started with another plan ({last.path / state.PLAN}); "
                "give that plan, or --new for a new batch",
                code="conflict",
            )
        return last
    if hours is None:
        return None
    if not hours <= _MOST_H:  # nor nan
        raise PlanError(f"--hours: {hours:g}: give at most {_MOST_H}", code="out-of-range")
    if (need := _round_s(plan)) > hours * 3600:
        raise PlanError(
            f"{plan.path}: one round of its {len(plan.cells)} cells takes about {need / 3600:.2g} h; "
            f"give more --hours than {hours:g}, or fewer cells or shorter phases",
            code="out-of-range",
        )
    return state.create(plan, hours)


def _round_s(plan: SoakPlan) -> float:
    """Return the approximate minimum time of a round, s: in simulated time, runs are concurrent."""
    alone = sum(cell.expected_s for cell in plan.cells if cell.options.lab != "sim")
    concurrent = [cell.expected_s for cell in plan.cells if cell.options.lab == "sim" and cell.options.engine == LOCAL]
    elsewhere = (cell.expected_s for cell in plan.cells if cell.options.engine != LOCAL)
    return alone + max(sum(concurrent) / len(os.sched_getaffinity(0)), *concurrent, *elsewhere, 0.0)


def resumable(batch: Batch) -> bool:
    """Whether a batch ended before its time: killed, stopped, or by a lab or disk that may have recovered."""
    return batch.code not in (SoakExit.ALL_VALID, SoakExit.SOME_NOT) and time.time() < batch.until


def killed(results: Path) -> BatchDirectory | None:
    """Return the last batch of a results folder if it never ended and its time is up."""
    last = next(reversed(state.batches(results)), None)
    return last if last and last.batch.ended is None and time.time() >= last.batch.until else None


class Soak:
    """A running batch; `run` returns when it is over."""

    def __init__(
        self,
        plan: SoakPlan,
        folder: BatchDirectory,
        notify: Callable[[str], None],
        stop: Stop | None = None,
        child: Sequence[str] = CHILD,
        most: Callable[[PlannedCell], int] | None = None,
    ) -> None:
        self._plan, self._folder, self._notify, self._child = plan, folder, notify, tuple(child)
        self._stop, self._most = stop or Stop(), most or most_at_once
        self._attempts = folder.attempts()
        self._own = psutil.Process()
        batch = folder.batch
        # By the clock that nobody sets: one that is set an hour on or back in the night changes nothing.
        self._end_s = _uptime_s() + min(batch.until - time.time(), batch.until - batch.begun)

    def run(self) -> Batch:
        """Run until the time is up or something ends it, and return how it ended.

        Raises what prevents even that from being written: StateError, OSError.
        """
        try:
            return self._run()
        except Exception as wrong:
            full, why = is_full(wrong), printable(" ".join(f"{type(wrong).__name__}: {wrong}".split()))
            if not full:
                traceback.print_exc()
            with suppress(Exception):  # likely for the same cause
                self._settle(Reason.of("disk-full" if full else "failed", why), "failed")
            return self._end(SoakExit.DISK_FULL if full else SoakExit.UNEXPECTED, why)

    def _run(self) -> Batch:
        self._folder.save(self._folder.batch.model_copy(update={"ended": None, "code": None, "cause": ""}))
        self._settle(_KILLED, "killed")
        self._verify_inherited()
        # A resumed batch may begin at the same power cut as its router.
        cause = self._broken("before the first run", _BACK_S if self._attempts else 0)
        code = SoakExit.LAB_BROKEN
        while not cause and not self._stop():
            runs = self._in_time(next_runs(self._plan, self._folder.batch.seed, self._attempts, self._most))
            if not runs:
                break
            if cause := self._no_room(runs[0].cell):
                code = SoakExit.DISK_FULL
                continue
            failed = [ended for ended in self._attempt(self._with_room(runs)) if ended.outcome == "failed"]
            if failed and not self._no_room(runs[0].cell):
                names = ", ".join(str(attempt.number) for attempt in failed)
                cause = self._broken(f"after run {names} had failed", _BACK_S)
        if self._stop():
            return self._end(128 + self._stop.signals[0], "stopped by " + signal.Signals(self._stop.signals[0]).name)
        if cause:
            return self._end(code, cause)
        return self._end(verdict(self._plan.file, self._attempts), "")

    def close(self) -> Batch:
        """End a killed batch whose time is up, by its plan. Raises StateError, OSError."""
        self._settle(_KILLED, "killed")
        self._verify_inherited()
        cause = "the soak was killed, and its time was up"
        try:
            code = verdict(saved_plan(self._folder), self._attempts)
        except PlanError as unreadable:
            return self._end(None, f"{cause}; no verdict: {unreadable}")
        return self._end(code, cause)

    def _verify_inherited(self) -> None:
        """Repeat runs that were altered: a power cut may have destroyed files that the manifest lists."""
        for attempt in [one for one in self._attempts if one.outcome in ("valid", "void") and one.run]:
            run = self._folder.path / str(attempt.run)
            try:
                verify_run(run, derived=(REPORT,))  # a page that a kill left half made is made again from the rest
            except (IntegrityError, StoreError) as damaged:
                why = Reason.of("altered", f"when the batch was resumed: {damaged}")
                self._notify(f"run {attempt.number} is repeated: {why}")
                if run.exists():  # kept, and no number comes of it any more
                    run = run.rename(run.with_name(run.name + PARTIAL))
                    sync_folder(self._folder.path)
                # The user's disk did it, not the cell: it counts for nothing.
                self._record(attempt.model_copy(update={"outcome": "stopped", "reasons": [why], "run": run.name}))

    def _settle(self, why: Reason, otherwise: Outcome) -> None:
        """Settle a run that a killed soak left in progress, from its records."""
        leftovers = self._clean(leaks.mounts())
        for attempt in [other for other in self._attempts if other.outcome == "running"]:
            self._record(state.settled(self._folder, attempt, why, otherwise).model_copy(update={"leaks": leftovers}))

    def _clean(self, mounted: set[str]) -> list[str]:
        """Remove and report what a process of the soak left behind, and return it."""
        leftovers = leaks.clean(self._mark, mounted, self._folder.path)
        for line in leftovers:
            self._notify(line)
        return leftovers

    @property
    def _mark(self) -> str:
        return str(self._folder.path.resolve())

    def _attempt(self, runs: Sequence[ScheduledRun]) -> list[Attempt]:
        """Execute runs concurrently and return how they ended."""
        mounted, made = leaks.mounts(), list[Attempt]()
        with ThreadPoolExecutor(len(runs)) as pool:
            running = {pool.submit(self._supervised, due, attempt): attempt for due, attempt in map(self._begin, runs)}
            while running:
                # Not without a limit: a signal that comes just before the wait is seen after it.
                for future in wait(running, _LOOK_S, FIRST_COMPLETED).done:
                    attempt = running.pop(future)
                    left = leaks.end_marked(self._mark_of(attempt)) if running else self._clean(mounted)
                    made.append(self._end_of(attempt, future.result(), left))
        sweep()
        return made

    def _begin(self, due: ScheduledRun) -> tuple[ScheduledRun, Attempt]:
        number, cell, seed = len(self._attempts) + 1, due.cell, self._folder.batch.seed
        self._notify(f"run {number}: round {due.round}, {cell.name}" + (f", try {due.attempt}" * (due.attempt > 1)))
        return due, self._record(
            Attempt(number=number, round=due.round, cell=cell.name, seed=seed + due.round - 1, begun=time.time(),
                    command_line=["sojourn", "soak", str(self._plan.path), f"cell={cell.name}"])
        )  # fmt: skip

    def _supervised(self, due: ScheduledRun, attempt: Attempt) -> Ended:
        """Execute one run, possibly concurrently with others, each in a thread."""
        task = Task(
            given=dict(due.cell.given), folder=self._folder.path, seed=self._folder.batch.seed, round=due.round,
            command_line=attempt.command_line, report=self._folder.file(attempt.number, state.RUN),
        )  # fmt: skip
        return supervise(
            [*self._child, "run", task.model_dump_json()],
            self._folder.file(attempt.number, ".log"),
            mark=self._mark_of(attempt), limit_s=self._plan.limit_s(due.cell), stopped=self._stop,
        )  # fmt: skip

    def _mark_of(self, attempt: Attempt) -> str:
        return f"{self._mark}/{attempt.number}"

    def _end_of(self, attempt: Attempt, ended: Ended, left: list[str]) -> Attempt:
        """Record and report how a run ended, and return it."""
        attempt = state.settled(self._folder, attempt, ended.error or _NO_RUN)
        if attempt.outcome == "failed" and ended.stopped:
            attempt = attempt.model_copy(update={"outcome": "stopped"})
        attempt = self._record(
            attempt.model_copy(
                update={
                    "ended": ended.at, "headline": ended.said, "leaks": left,
                    "memory_mb": round(self._own.memory_info().rss / 1e6, 1),
                    "free_gb": round(free_bytes(self._folder.path) / 1e9, 3),
                }
            )
        )  # fmt: skip
        for line in filter(None, (*attempt.reasons, attempt.headline)):
            self._notify(f"run {attempt.number}: {attempt.words}: {line}")
        if why := quarantined(self._plan.file, attempt.cell, self._attempts):
            self._notify(f"{attempt.cell}: quarantined for the rest of the batch: {'; '.join(why)}")
        return attempt

    def _record(self, attempt: Attempt) -> Attempt:
        others = [other for other in self._attempts if other.number != attempt.number]
        self._attempts = sorted([*others, attempt], key=lambda one: one.number)
        return self._folder.record(attempt)

    def _in_time(self, runs: list[ScheduledRun]) -> list[ScheduledRun]:
        """Return the runs, in order, before the first that would not end in time."""
        left_s = self._end_s - _uptime_s()
        return list(itertools.takewhile(lambda due: expected_s(self._plan, due.cell, self._attempts) <= left_s, runs))

    def _with_room(self, runs: list[ScheduledRun]) -> list[ScheduledRun]:
        """Return the first run and those that also fit on the disk."""
        left = free_bytes(self._plan.results) - round(self._plan.file.disk.keep_free_gb * 1e9)
        needed = itertools.accumulate(due.cell.options.needed_bytes for due in runs)
        return runs[: max(1, sum(need <= left for need in needed))]

    def _no_room(self, cell: PlannedCell) -> str:
        """Free space for a run as far as the plan allows; return why there is not enough."""
        disk, results = self._plan.file.disk, self._plan.results
        needed = cell.options.needed_bytes + round(disk.keep_free_gb * 1e9)
        if removed := make_room(self._folder, needed, disk.prune, self._notify):
            batch = self._folder.batch
            self._folder.save(batch.model_copy(update={"pruned": batch.pruned + removed}))
            self._notify(f"pruned to free space: {', '.join(removed)}")
        if (free := free_bytes(results)) >= needed:
            return ""
        return (
            f"disk: {results} has {free / 1e9:.2f} GB free, but the next run and [disk] keep_free_gb need "
            f"{needed / 1e9:.2f} GB; free some space, or allow the plan to prune"
        )

    def _broken(self, when: str, back_s: float = 0) -> str:
        """Check every lab of the plan and return the first problem; empty if all work.

        A physical one that does not is checked again for `back_s` seconds: its router may have been rebooted; so is a
        cluster.
        """
        self._notify(f"checking the lab {when}")
        makers = attrgetter("lab", "lab_file", "sources", "ip_version", "uplink", "engine")
        labs = {makers(cell.options): cell for cell in self._plan.cells}
        for cell in labs.values():
            end = time.monotonic() + (back_s if cell.options.lab in PHYSICAL or cell.options.engine != LOCAL else 0)
            while (error := self._check(cell)) and not self._stop():
                if time.monotonic() >= end:
                    return f"the {cell.options.lab} lab does not work: {error}"
                self._notify(f"the {cell.options.lab} lab does not work yet: {error}")
                time.sleep(_RECHECK_S)
        return ""

    def _check(self, cell: PlannedCell) -> str:
        """Start the lab of a cell once and return why it does not work."""
        stem = self._folder.file(len(self._attempts), f"-check-{cell.options.lab}")
        mounted = leaks.mounts()
        ended = supervise(
            [*self._child, "check", Task(given=dict(cell.given), folder=stem).model_dump_json()],
            stem.with_suffix(".log"), mark=self._mark, limit_s=_CHECK_LIMIT_S, stopped=self._stop,
        )  # fmt: skip
        self._clean(mounted)
        return str(ended.error or "")

    def _end(self, code: int | None, cause: str) -> Batch:
        self._folder.release_ballast()
        update = {"ended": time.time(), "code": code if code is None else int(code), "cause": cause}
        return self._folder.save(self._folder.batch.model_copy(update=update))


def _uptime_s() -> float:
    """Seconds since the boot, those of a suspended machine too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def verdict(plan: PlanFile, attempts: Sequence[Attempt]) -> SoakExit:
    """Return the exit code of a completed batch: whether every cell has a valid run and none is quarantined."""
    valid = {attempt.cell for attempt in attempts if attempt.outcome == "valid"}
    good = all(name in valid and not quarantined(plan, name, attempts) for name in plan.names)
    return SoakExit.ALL_VALID if good else SoakExit.SOME_NOT


def most_at_once(cell: PlannedCell) -> int:
    """Return how many runs of `cell` may be concurrent: one in real time, otherwise as processors and memory allow."""
    if cell.options.lab != "sim":
        return 1
    if cell.options.engine == LOCAL:
        return min(len(os.sched_getaffinity(0)), fitting(MEMORY))
    from sojourn.harness.engine.dask import connected, places
    from sojourn.harness.engine.job import EngineError

    try:
        with connected(cell.options.engine) as client:
            return min(places(client, memory_bytes(MEMORY)), available_bytes() // _WAITING_BYTES)
    except EngineError:
        return 1  # which will say so, and have the cluster checked
