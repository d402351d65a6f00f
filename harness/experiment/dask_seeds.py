# SPDX-License-Identifier: Apache-2.0
"""Repetitions on the workers of an existing Dask cluster, as seen from the process that each has here as well."""

from __future__ import annotations

import queue
import tempfile
import uuid
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from sojourn.apps.base import Service
from sojourn.hardware.machine import cache
from sojourn.harness.experiment import simulated
from sojourn.harness.experiment.run import Result, keep_run
from sojourn.harness.experiment.seeds import Tell, simulate
from sojourn.harness.lab.machine import SimulatedError
from sojourn.harness.matrix.engines.dask_engine import check_inputs, check_workers, connected, packed, threads, unpack
from sojourn.harness.options.model import Options
from sojourn.harness.store.loaded import load_scores
from sojourn.harness.store.manifest import Manifest
from sojourn.harness.store.runs import FLOOR_BYTES, RunDirectory
from sojourn.harness.terminal import Tell as TellShare
from sojourn.harness.terminal import steps
from sojourn.scoring.schema.scores import Scores

_TRIES = 3
"""How often a run is begun whose worker is lost; Dask itself does that again."""
_QUIET_S = 5.0

News = tuple[Literal["begun", "line", "done", "over"], Any]
"""What is told of a run: also that a worker, which is named, begins it, and that it is over."""


def inputs(options: Options, service: type[Service], step: Callable[[str], TellShare] | None = None) -> str:
    """Name all that decides what such a run gives, its film too; builds what is missing.

    Raises BuildError, ServiceError.
    """
    player = service.from_options(options)
    machine = simulated.prepare(options, player, step or (lambda _: lambda *_: None))
    films = simulated.films(options, player)
    return cache.digest([("machine", machine.digest.encode()), *((name, it.encode()) for name, it in films.items())])


def dask_run(
    test: str, options: Options, service: type[Service], command_line: Sequence[str], console: Console
) -> DaskRun:
    """Build what runs need, and return a job that makes one on the cluster that `options` name.

    Raises BuildError, ServiceError, EngineError where a worker would give other results.
    """
    with steps(console) as step:
        ours = inputs(options, service, step)
    with connected(options.engine) as client:
        check_workers(client, ours, partial(inputs, options, service))
    return DaskRun(test, tuple(command_line), options.engine, Simulation(service, ours))


Run = Callable[[Options, RunDirectory, Tell], Scores]
"""Fills a run's directory on a worker; to be pickled."""


@dataclass(frozen=True)
class Simulation:
    """Fills a run's directory where the machine has the given inputs. Raises EngineError where it has others."""

    service: type[Service]
    inputs: str

    def __call__(self, asked: Options, run: RunDirectory, tell: Tell) -> Scores:
        check_inputs(self.inputs, partial(inputs, asked, self.service))
        service = self.service.from_options(asked)
        service.prepare()
        return simulate(asked, service, simulated.machine_of(asked), run, tell)


@dataclass(frozen=True)
class DaskRun:
    """A job that has a run made by a worker, and keeps its evidence here.

    What a run that fails has recorded comes too. A run that is given up here ends there within seconds.
    """

    test: str
    command_line: tuple[str, ...]
    address: str
    run: Run

    def __call__(self, asked: Options, tell: Tell) -> Result:
        return keep_run(self.test, asked, self.command_line, lambda run: self._fill(asked, run, tell))

    def _fill(self, asked: Options, run: RunDirectory, tell: Tell) -> Scores:
        topic, news = f"sojourn-{uuid.uuid4()}", queue.SimpleQueue[News]()
        with connected(self.address) as client:
            client.subscribe_topic(topic, lambda event: news.put(tuple(event[1])))
            future = client.submit(_make, self.run, asked, topic, pure=False)
            future.add_done_callback(lambda _: news.put(("over", None)))
            _follow(client, news, tell)
            try:
                archive, versions, why = future.result()
            except CancelledError as gone:
                raise SimulatedError("the Dask scheduler is gone") from gone
        unpack(archive, run.path)
        run.add_versions(versions)
        if why:
            raise SimulatedError(why)
        return load_scores(run.path)


def _follow(client: Any, news: queue.SimpleQueue[News], tell: Tell) -> None:
    """Tell what a run tells until it is over. Raises SimulatedError when too many workers are lost with it."""
    begun = 0
    while True:
        try:
            kind, what = news.get(timeout=_QUIET_S)
        except queue.Empty:
            threads(client)
            continue
        if kind == "over":
            return
        if kind == "line" or kind == "done":
            tell(kind, what)
        elif (begun := begun + 1) > _TRIES:
            raise SimulatedError(f"its worker was lost {_TRIES} times")
        elif begun > 1:
            tell("line", f"its worker was lost; begun again by {what}")


class _Given(RunDirectory):
    """A run's directory on a worker; its recording ends once nobody waits for it any more."""

    def __init__(self, path: Path, asked: Options) -> None:
        super().__init__(path, Manifest(run="given", test="", cell=asked.cell, created=0))
        from distributed import get_worker

        self._worker: Any = get_worker()  # its types are not told
        self._task = self._worker.get_current_task()

    def check_space(self, floor: int = FLOOR_BYTES) -> None:
        task = self._worker.state.tasks.get(self._task)
        if task is None or task.state == "cancelled":
            raise _GivenUpError
        super().check_space(floor)


class _GivenUpError(Exception):
    """Nobody waits for this run any more, nor for what it raises."""


def _make(make: Run, asked: Options, topic: str) -> tuple[bytes, dict[str, str], str]:
    """Make a run on a worker: its evidence as an archive, versions for the manifest, and what stopped it."""
    from distributed import get_worker

    worker: Any = get_worker()

    def tell(kind: str, what: Any) -> None:
        worker.log_event(topic, (kind, what))

    tell("begun", worker.address)
    # Dask sweeps this directory when the worker was killed.
    with tempfile.TemporaryDirectory(dir=worker.local_directory) as name:
        run, why = _Given(Path(name), asked), ""
        try:
            make(asked, run, tell)
        except (RuntimeError, OSError) as error:
            why = str(error) if isinstance(error, SimulatedError) else f"{type(error).__name__}: {error}"
        return packed(run.path), run.manifest.versions, why
