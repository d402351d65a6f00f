# SPDX-License-Identifier: Apache-2.0
"""Jobs in worker processes on this machine, as many at a time as processors and memory allow.

A job has its worker for itself: one that dies takes no other job along.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self

from sojourn.hardware.machine.signals import deferred_signals, ended_by_signals
from sojourn.hardware.simulation import free_bytes
from sojourn.harness.engine.job import Channel, Digest, EngineError, Event, Job, failure

#: A job that is ended ends its machine first, and hashes what was recorded, s.
_GRACE_S = 30.0
#: What a worker reports instead of beginning its first job.
_REFUSED = "refused"


def capacity(processors: int, fitting: int, requested: int | None = None) -> int:
    """Return how many jobs run in parallel: one per processor or as `requested`, no more than `fitting` but one."""
    return max(1, min(requested or processors, fitting))


@dataclass
class _Task:
    job: Job
    folder: Path
    begun: int = 0


class LocalEngine:
    """Worker processes on this machine, each running one job at a time."""

    def __init__(
        self,
        memory_bytes: int,
        workers: int | None = None,
        tries: int = 1,
        inputs: str = "",
        digest: Digest = str,
    ) -> None:
        """Create an engine for jobs that need up to `memory_bytes` each, their workers included.

        `tries`: how often a job begins whose worker dies (out of memory, killed); the last time with no other job next
        to it. `events` raises EngineError if `digest()` is not `inputs` in a worker: it begins when there is room for
        it, and the code may have changed since. Raises EngineError if the memory does not suffice for one job.
        """
        self._memory_bytes, self._tries = memory_bytes, tries
        self._refusal = partial(_refusal, inputs, digest)
        if (free := free_bytes(memory_bytes)) < memory_bytes:
            need, have = memory_bytes >> 20, free >> 20
            raise EngineError(
                f"a simulated node needs {need} MB of memory, {have} MB are free; free some first", code="no-memory"
            )
        self.workers = capacity(len(os.sched_getaffinity(0)), free // memory_bytes, workers)
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, _Worker] = {}
        self._alone = deque[_Task]()
        """They begin for the last time, each once no other job runs."""

    def free(self, running: int) -> int:
        if self._alone or (self._tries > 1 and any(it.task.begun == self._tries for it in self._busy.values())):
            return 0
        short = running and free_bytes(self._memory_bytes) < self._memory_bytes
        return 0 if short else self.workers - running

    def submit(self, job: Job, folder: Path) -> None:
        self._begin(_Task(job, folder))

    def _begin(self, task: _Task) -> None:
        task.begun += 1
        with deferred_signals():  # until the worker is known to __exit__
            worker = self._idle.pop() if self._idle else _Worker(self._refusal)
            self._busy[worker.connection] = worker
            worker.begin(task)

    def events(self, timeout_s: float) -> list[Event]:
        if self._alone and not self._busy:
            self._begin(self._alone.popleft())
        events = []
        for ready in wait(list(self._busy), timeout_s):
            worker = self._busy[ready]  # type: ignore[index]  # of processes only connections are waited for
            if (heard := worker.hear()) is None:
                events += self._lost(worker)
                continue
            if heard[0] == _REFUSED:
                raise EngineError(heard[1], code="other-version")
            events.append(Event(worker.task.folder, *heard))
            if events[-1].kind == "ended":
                self._idle.append(self._busy.pop(worker.connection))
        return events

    def _lost(self, worker: _Worker) -> list[Event]:
        """Begin the job of a worker that has died again, or return that it has failed."""
        del self._busy[worker.connection]
        code, task = worker.end(), worker.task
        if task.begun + 1 < self._tries:
            self._begin(task)
        elif task.begun < self._tries:
            self._alone.append(task)
        else:
            died = f"died {task.begun} times, the last time" if task.begun > 1 else "ended"
            return [Event(task.folder, "ended", f"its process {died} with {code} (out of memory? killed?)")]
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._busy.values():
            worker.process.terminate()
        for worker in (*self._busy.values(), *self._idle):
            worker.end()


class _Worker:
    """A worker process, as seen from here."""

    task: _Task

    def __init__(self, refusal: Callable[[], str]) -> None:
        # Not forked: polars' threads do not survive it, and a fork would hold our locks.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(theirs, refusal))
        with _ctrl_c_blocked():
            self.process.start()
        theirs.close()

    def begin(self, task: _Task) -> None:
        """Hand over a task; a worker that has died is found by `hear`."""
        self.task = task
        with suppress(OSError):
            self.connection.send((task.job, task.folder))

    def hear(self) -> tuple[Any, Any] | None:
        """Return the next report of its job; None when it has died, perhaps in the middle of a report."""
        try:
            kind, what = self.connection.recv()
        except (EOFError, OSError):
            return None
        return kind, what

    def end(self) -> int | None:
        """Wait for the end of a process that is ending or has no job, and return its exit code."""
        self.connection.close()
        self.process.join(_GRACE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return self.process.exitcode


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """A terminal sends Ctrl-C to all processes: one that is starting would print a screenful."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _refusal(inputs: str, digest: Digest) -> str:
    """Return why this worker, which has just begun, would give other results; empty if it would not."""
    try:
        changed = digest() != inputs
    except (RuntimeError, OSError) as error:
        return failure(error)
    return "the code, kernel or guest has changed since this command began; give the command again" if changed else ""


def _work(connection: Connection, refusal: Callable[[], str]) -> None:
    """Run the jobs that come, in turn, until no more can come."""
    refusal = cache(refusal)

    def send(kind: str, what: Any) -> None:
        with suppress(BrokenPipeError):  # nobody listens any more: we are ended for that
            connection.send((kind, what))

    try:
        with ended_by_signals():
            # The process that started us decides. No SIG_IGN: programs that we start would have it too.
            signal.signal(signal.SIGINT, lambda *_: None)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            _end_with_parent()
            while True:
                job, folder = connection.recv()
                if why := refusal():
                    send(_REFUSED, why)
                else:
                    send("ended", _outcome(job, folder, Channel(send)))
    except (EOFError, ConnectionResetError):
        return
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGTERM)


def _outcome(job: Job, folder: Path, channel: Channel) -> str:
    """Run a job and return why it failed; empty if it did not."""
    try:
        job(folder, channel)
    except Exception as error:
        if not isinstance(error, RuntimeError | OSError):
            traceback.print_exc()
        return failure(error)
    return ""


def _end_with_parent() -> None:
    """End this process in order if its parent has ended."""
    parent = multiprocessing.parent_process()
    assert parent

    def follow() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE_S)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=follow, daemon=True).start()
