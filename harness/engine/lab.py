# SPDX-License-Identifier: Apache-2.0
"""Jobs in real time, one after another in one lab, which is made with the first and undone after the last."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event as Flag
from typing import Any, Self

from sojourn.harness.engine.job import Event, Job, failure
from sojourn.harness.lab.contract import Lab, LabFactory


class LabEngine:
    """One lab.

    Everything happens in one thread: what a lab starts lives no longer than the thread that started it (LOCAL). After a
    job that fails the next one gets a new lab.
    """

    def __init__(self, make: Callable[[], LabFactory], run: Callable[[Lab, Any, Path, Flag], None]) -> None:
        """`make` gives the lab; `run` runs a job in it, in a folder, and ends early once the flag is set."""
        self._make, self._job = make, run
        self._thread = ThreadPoolExecutor(1)
        self._stopped = Flag()
        self._up = ExitStack()
        self._lab: Lab | None = None
        self._events = SimpleQueue[Event]()

    def free(self, running: int) -> int:
        return 1 - running

    def submit(self, job: Job, folder: Path) -> None:
        self._thread.submit(self._run, job, folder)

    def events(self, timeout_s: float) -> list[Event]:
        try:
            return [self._events.get(timeout=timeout_s)]
        except Empty:
            return []

    def _run(self, job: Job, folder: Path) -> None:
        error = ""
        try:
            lab = self._lab = self._lab or self._up.enter_context(self._make())
            self._job(lab, job, folder, self._stopped)
        except BaseException as failed:
            error = failure(failed)
            try:
                self._down()
            except BaseException as further:
                error += f"; then {failure(further)}"
        self._events.put(Event(folder, "ended", error))

    def _down(self) -> None:
        self._lab = None
        self._up.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()  # nothing runs any more unless interrupted
        try:
            self._thread.submit(self._down).result()
        finally:
            self._thread.shutdown()
