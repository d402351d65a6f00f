# SPDX-License-Identifier: Apache-2.0
"""Whether other programs take the processors from a run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

#: How often to look, s: a look reads a file per thread.
_LOOK_S = 10.0
#: A run is slow because of others if it gets less than this share of the processor time that it could use.
_LEAST_GIVEN = 0.5
#: If a run's own programs take this share of all processors, they wait for each other.
_ALL = 0.8


def times_of_tree() -> Iterator[tuple[int, int]]:
    """Yield how long each thread of this process and of its descendants ran and waited for a processor, ns."""
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        for file in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
            with suppress(OSError, ValueError):  # it has ended, or the kernel has no such figures
                ran, waited, _ = map(int, file.read_text().split())
                yield ran, waited


class BusyHost:
    """Watches how much of the wanted processor time this process and its descendants get."""

    def __init__(
        self,
        times: Callable[[], Iterator[tuple[int, int]]] = times_of_tree,
        clock: Callable[[], float] = time.monotonic,
        processors: int = len(os.sched_getaffinity(0)),
    ) -> None:
        self._times, self._clock, self._processors = times, clock, processors
        self._begun = self._looked = clock()
        self._ran = self._waited = 0
        self._said = False
        self._read()
        self._all_ran = self._all_waited = 0

    def _read(self) -> tuple[int, int]:
        """Return how long all threads ran and waited since the last call; less than that where threads have ended."""
        every = list(self._times())
        before = self._ran, self._waited
        self._ran, self._waited = sum(ran for ran, _ in every), sum(waited for _, waited in every)
        return max(self._ran - before[0], 0), max(self._waited - before[1], 0)

    def line(self) -> str:
        """Look, and return once that the host is busy, when it is; otherwise an empty text."""
        now = self._clock()
        if now - self._looked < _LOOK_S:
            return ""
        since, self._looked = now - self._looked, now
        ran, waited = self._read()
        self._all_ran, self._all_waited = self._all_ran + ran, self._all_waited + waited
        share = self._given(ran, waited, since)
        if self._said or share >= _LEAST_GIVEN:
            return ""
        self._said = True
        return (
            f"the host is busy: other programs leave this run {share:.0%} of the processor time that it could use, "
            "so the time left varies"
        )

    @property
    def given(self) -> float:
        """The share of the processor time that the run could use and got, until the last look; 1 before the first."""
        return self._given(self._all_ran, self._all_waited, self._looked - self._begun)

    def _given(self, ran: int, waited: int, seconds: float) -> float:
        """Return the share for threads that ran and waited so long, ns; 1 if they wait for each other."""
        alone = not waited or ran >= _ALL * self._processors * seconds * 1e9
        return 1.0 if alone else ran / (ran + waited)
