# SPDX-License-Identifier: Apache-2.0
"""Runs in parallel: one guest a processor on this machine, and the loop that shares work with other runners."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from sojourn.hardware.machine.memory import available_bytes
from sojourn.hardware.machine.signals import end_waits, held_back
from sojourn.harness.matrix.cells.cell_run import Job, is_of, perform, rescore, standing
from sojourn.harness.matrix.results import run_folder
from sojourn.harness.store.claim import Claim, claim

GUEST_BYTES = 400 << 20
"""What a guest of 256 MB and its worker take at most."""
_TRIES = 3
"""How often a run is begun whose worker dies (out of memory, killed); the last time with no other beside it."""
_LOOK_S = 1.0
"""How long to wait at most: a signal that comes between Python's last look for one and the wait is seen after it."""


class EngineError(RuntimeError):
    """Nothing can run here; one line that says why."""


@dataclass(frozen=True)
class Outcome:
    """What became of a job: made now, there before (or made by another runner meanwhile), or failed."""

    job: Job
    folder: Path
    """The finished run, or what a failed one left."""
    status: Literal["ran", "kept", "failed"]
    error: str = ""


class Engine(Protocol):
    """Where runs are made. Leaving it as a context ends what still runs."""

    def free(self, running: int) -> int:
        """Return how many more runs may be begun now, beside `running`. Raises EngineError."""

    def submit(self, job: Job, folder: Path) -> Future[Any]:
        """Begin a run."""

    def collect(self, result: Any, folder: Path) -> None:
        """Put what a run's future returned into its folder."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def capacity(processors: int, available_bytes: int, asked: int | None = None, guest_bytes: int = GUEST_BYTES) -> int:
    """Return how many guests may run side by side. Raises EngineError when the memory is too little for one."""
    fitting = available_bytes // guest_bytes
    if fitting < 1:
        need, have = guest_bytes >> 20, available_bytes >> 20
        raise EngineError(f"a simulated node takes {need} MB of memory, {have} MB are available; end something first")
    return max(1, min(asked or processors, fitting))


class LocalEngine:
    """Worker processes on this machine, each with its guest on a processor of its own."""

    def __init__(self, workers: int | None = None, guest_bytes: int = GUEST_BYTES) -> None:
        """`guest_bytes`: what a guest may come to use. Raises EngineError where there is no memory for one."""
        self._guest_bytes = guest_bytes
        available = available_bytes()
        self.workers = capacity(len(os.sched_getaffinity(0)), available, workers, guest_bytes)
        self._pool: ProcessPoolExecutor | None = None

    def free(self, running: int) -> int:
        short = available_bytes() < self._guest_bytes
        return 0 if short and running else self.workers - running

    def submit(self, job: Job, folder: Path) -> Future[None]:
        try:
            return self._started().submit(_work, job, folder)
        except BrokenExecutor:
            assert self._pool
            self._pool.shutdown()  # all its workers are gone then
            self._pool = None
            return self._started().submit(_work, job, folder)

    def collect(self, result: None, folder: Path) -> None:
        pass

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Not forked: polars' threads do not survive it, and a fork would hold our claims open.
            self._pool = ProcessPoolExecutor(self.workers, multiprocessing.get_context("spawn"), begin_worker)
        return self._pool

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is None:
            return
        if kind:
            # A worker that is told to end kills its guest first.
            for worker in list((self._pool._processes or {}).values()):
                worker.terminate()
        self._pool.shutdown(cancel_futures=True)


def begin_worker() -> None:
    """End with the runner, and only with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parent = multiprocessing.parent_process()
    assert parent

    def follow() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=follow, daemon=True).start()
    import sojourn.scoring.transport.cell_scores  # noqa: F401  # here, not in the time of the first run


def _work(job: Job, folder: Path) -> None:
    try:
        perform(job, folder)
    except SystemExit:  # told to end; the pool would keep this worker
        os._exit(143)


def complete(
    jobs: Iterable[Job],
    engine: Engine,
    folder: Path,
    *,
    again: bool = False,
    begun: Callable[[Job], None] = lambda _job: None,
) -> Generator[Outcome]:
    """Yield the outcome of every job as it is known; finished runs are kept in `folder`, that of the matrix.

    A run that is finished and whose inputs are the same is not made again, unless `again`; one that another runner
    is making is left to it and waited for at the end. Takes over the engine and ends it; when the iteration is given
    up, nothing partial stays. `begun` is told of every run that starts.
    """
    waiting, busy = deque((job, again) for job in jobs), deque[Job]()
    # A dead worker breaks all runs beside its own: whose fault it is shows when each has its last try by itself.
    alone = deque[tuple[Job, Claim]]()
    running: dict[Future[Any], tuple[Job, Claim, int]] = {}

    def submit(job: Job, claimed: Claim, tries: int) -> None:
        running[engine.submit(job, claimed.folder)] = job, claimed, tries
        begun(job)

    def begin(job: Job, again: bool, wait: bool = False) -> Outcome | None:
        final = run_folder(folder, job.cell, job.seed)
        if not again and standing(job, final) == "done":
            return Outcome(job, final, "kept")
        if not (claimed := claim(final, wait=wait)):
            busy.append(job)
        # Asked again: another runner may have finished it meanwhile.
        elif not again and (state := standing(job, final)) in ("done", "unscored"):
            return _kept(job, claimed, rescored=state == "unscored")
        else:
            submit(job, claimed, 1)
        return None

    def end(future: Future[Any]) -> Outcome | None:
        job, claimed, tries = running[future]
        try:
            engine.collect(future.result(), claimed.folder)
            _check(job, claimed.folder)
        except BrokenExecutor:
            if tries + 1 < _TRIES:
                submit(job, claimed, tries + 1)
                return None
            if tries < _TRIES:
                alone.append((job, claimed))
                return None
            return Outcome(job, claimed.fail("died"), "failed", f"its worker died {tries} times")
        except Exception as error:
            error_text = f"{type(error).__name__}: {error}"
            return Outcome(job, claimed.fail(error_text), "failed", error_text)
        finally:
            del running[future]
        return Outcome(job, claimed.commit(), "ran")

    end_waits()
    try:
        with engine:
            while waiting or busy or running or alone:
                if alone and not running:
                    with held_back():
                        submit(*alone.popleft(), _TRIES)
                last = alone or any(tries == _TRIES for *_, tries in running.values())
                while waiting and not last and engine.free(len(running)) > 0:
                    with held_back():
                        outcome = begin(*waiting.popleft())
                    if outcome:
                        yield outcome
                if running:
                    for future in wait(running, _LOOK_S, FIRST_COMPLETED).done:
                        with held_back():
                            outcome = end(future)
                        if outcome:
                            yield outcome
                elif busy and (outcome := begin(busy.popleft(), again=False, wait=True)):
                    yield outcome
    finally:
        for claimed in (*(claimed for _, claimed, _ in running.values()), *(claimed for _, claimed in alone)):
            claimed.release()


def _check(job: Job, folder: Path) -> None:
    """Score a collected run here if other sources have scored it. Raises EngineError when it is no run of the job."""
    state = standing(job, folder)
    if state == "stale" or not is_of(job, folder):
        raise EngineError("a worker returned files that are no run of this cell and seed; run the matrix again")
    if state == "unscored":
        rescore(job, folder)


def _kept(job: Job, claimed: Claim, *, rescored: bool) -> Outcome:
    """Keep a finished run, its scores renewed if need be, and give up the claim to it."""
    try:
        if rescored:
            rescore(job, claimed.final)
    except Exception as error:
        error_text = f"cannot be scored anew ({type(error).__name__}: {error}); --again runs it"
        return Outcome(job, claimed.final, "failed", error_text)
    finally:
        claimed.release()
    return Outcome(job, claimed.final, "kept")
