# SPDX-License-Identifier: Apache-2.0
"""Repetitions in simulated time: as many seeds side by side as there are processors and memory for."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import TextIO

import psutil
from rich.console import Console
from rich.text import Text

from apps.base import Service
from harness import simulated
from harness.engine import EngineError, begin_worker
from harness.options import Options
from harness.progress import steps
from harness.run import SPARE, Result, perform
from harness.scratch import scratch_folder
from harness.store import RunStore

_LOOK_S = 0.5


def repeat_side_by_side(
    test: str,
    options: Options,
    services: Mapping[str, type[Service]],
    command_line: Sequence[str],
    terminal: TextIO,
) -> Iterator[Result]:
    """Run an experiment with a seed for each repetition that ``options`` ask for; yield the runs in their order.

    A void run would be void again with its seed: another seed takes its place, :data:`harness.run.SPARE` times in all.
    Leaving the iteration ends what still runs. Raises as :func:`harness.run.perform`, StoreError at once when not all
    runs would fit on the disk, and EngineError when a worker dies.
    """
    wanted = options.repeat or 1
    console = Console(file=terminal)
    RunStore(options.results).check(options.needed_bytes * wanted)
    with steps(console) as step:
        machine = simulated.prepare(options, services[options.service].from_options(options), step)
    workers = min(wanted, len(os.sched_getaffinity(0)), max(1, psutil.virtual_memory().available // machine.bytes))
    console.print(Text(f"{wanted} runs, seeds from {options.seed} on, {workers} side by side"))
    waiting, spare = deque(range(1, wanted + 1)), deque(range(wanted + 1, wanted + SPARE + 1))
    running: dict[Future[Result], _Told] = {}
    ended: dict[int, Result] = {}
    news = scratch_folder("-news")
    # Not forked: polars' threads do not survive it.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), begin_worker)
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                number = waiting.popleft()
                asked = options.repetition(number)
                told = _Told(number, asked.seed, news / str(number))
                running[pool.submit(_perform, test, asked, dict(services), list(command_line), told.file)] = told
            done = wait(running, _LOOK_S, FIRST_COMPLETED).done
            for told in running.values():
                for line in told.fresh():
                    console.print(Text(f"seed {told.seed}: {line}"))
            for future in done:
                told = running.pop(future)
                ended[told.number] = result = future.result()
                if result.void and spare:
                    waiting.append(spare.popleft())
                    console.print(Text(f"seed {told.seed}: void; seed {options.repetition(waiting[-1]).seed} instead"))
    except BrokenExecutor as died:
        raise EngineError("a run's worker died (out of memory? killed?); what it recorded is kept") from died
    finally:
        # A worker that is told to end ends its machine first, and keeps what was recorded.
        for worker in list((pool._processes or {}).values()):
            worker.terminate()
        pool.shutdown(cancel_futures=True)
        shutil.rmtree(news, ignore_errors=True)
    for number in sorted(ended):
        yield ended[number]


class _Told:
    """What a run in a worker tells of itself, line by line."""

    def __init__(self, number: int, seed: int, file: Path) -> None:
        self.number, self.seed, self.file = number, seed, file
        self._read = 0

    def fresh(self) -> list[str]:
        """Whole lines that came since the last call."""
        if not self.file.exists():
            return []
        with self.file.open("rb") as file:
            file.seek(self._read)
            *lines, rest = file.read().split(b"\n")
            self._read = file.tell() - len(rest)
        return [line.decode(errors="replace") for line in lines]


def _perform(
    test: str, options: Options, services: Mapping[str, type[Service]], command_line: Sequence[str], told: Path
) -> Result:
    with told.open("w", buffering=1) as terminal:
        return perform(test, options, services, command_line, terminal)
