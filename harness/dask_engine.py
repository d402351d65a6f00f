# SPDX-License-Identifier: Apache-2.0
"""Runs on the workers of an existing Dask cluster; the results come to the one folder of the runner."""

from __future__ import annotations

import io
import tempfile
import zipfile
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.cell_run import Endpoints, Job, empty, inputs_digest, perform
from harness.cores import Lease
from harness.engine import EngineError

_AHEAD = 2
"""Runs handed to the scheduler for each thread, so that none waits for the runner."""
_CONNECT_S = 15


class DaskEngine:
    """The threads of all workers, one guest each; the workers' machines need the same Sojourn, kernel and guest.

    What a lost worker was running is run again by another: Dask's own doing. Raises EngineError when the scheduler
    does not answer, has no worker, or a worker would give other results.
    """

    def __init__(self, address: str, inputs: str, endpoints: Endpoints = "bulk") -> None:
        try:
            from distributed import Client
        except ImportError as missing:
            raise EngineError("--engine=dask needs the extra: pip install 'sojourn[dask]'") from missing
        try:
            make: Any = Client  # its types are not told
            self._client = make(address, timeout=_CONNECT_S, set_as_default=False)
            self._client.wait_for_workers(1, timeout=_CONNECT_S)
        except OSError as silent:  # TimeoutError is one
            raise EngineError(f"--engine: {address}: no Dask scheduler with workers answers ({silent})") from silent
        self._check(inputs, endpoints)
        self._executor = self._client.get_executor(pure=False)

    def _check(self, inputs: str, endpoints: Endpoints) -> None:
        found = self._client.run(_inputs, endpoints, on_error="return")
        for worker, theirs in found.items():
            if isinstance(theirs, BaseException):
                raise EngineError(f"--engine: worker {worker} cannot run cells: {type(theirs).__name__}: {theirs}")
            if theirs != inputs:
                raise EngineError(f"--engine: worker {worker}: {_DIFFERENT}")

    def free(self, running: int) -> int:
        while not (threads := sum(self._client.nthreads().values())):
            try:
                self._client.wait_for_workers(1, timeout=_CONNECT_S)
            except OSError as silent:
                raise EngineError("--engine: the last Dask worker is gone") from silent
        return int(threads) * _AHEAD - running

    def submit(self, job: Job, folder: Path) -> Future[bytes]:
        future: Future[bytes] = self._executor.submit(run_packed, job)
        return future

    def collect(self, result: bytes, folder: Path) -> None:
        empty(folder)
        with zipfile.ZipFile(io.BytesIO(result)) as packed:
            packed.extractall(folder)  # which leads nowhere else, unlike a tar's in Debian 12's Python

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown(wait=False)  # cancels what has not begun
        self._client.close()


_DIFFERENT = "its kernel, guest or Sojourn is not this machine's: take the same commit, then `sojourn build` there"


def _inputs(endpoints: Endpoints) -> str:
    return inputs_digest(endpoints)


def run_packed(job: Job) -> bytes:
    """Run a job on a processor of its own and return its folder as a zip archive."""
    if job.run is None and inputs_digest(job.endpoints) != job.inputs:  # a worker that joined later
        raise EngineError(f"this worker {_DIFFERENT}")
    from distributed import get_worker

    # Dask sweeps this directory when the worker was killed.
    with tempfile.TemporaryDirectory(dir=get_worker().local_directory) as name, Lease() as core:
        folder, packed = Path(name), io.BytesIO()
        perform(job, folder, core)
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(folder))
        return packed.getvalue()
