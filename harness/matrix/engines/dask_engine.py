# SPDX-License-Identifier: Apache-2.0
"""Runs on the workers of an existing Dask cluster; the results come to the one folder of the runner."""

from __future__ import annotations

import asyncio
import io
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from sojourn.hardware.simulation import memory_bytes
from sojourn.harness.lab.machine import MEMORY
from sojourn.harness.matrix.cells.cell_run import Job, SimulatedInputs, empty, perform
from sojourn.harness.matrix.engines.engine import EngineError
from sojourn.harness.options.parsing import UNSAFE, engine_address

_AHEAD = 2
"""Runs handed to the scheduler for each thread, so that none waits for the runner."""
_CONNECT_S = 15
_MOST_FILES, _MOST_BYTES = 100_000, 64 << 30  # of a run, far more than any has
WAITING_BYTES = 400 << 20
"""Of memory, for a process that waits for a run elsewhere."""


Digest = Callable[[], str]
"""Names all that decides what a run gives where it is called; to be pickled."""


def connected(address: str) -> Any:
    """Return a client of the cluster at `address`. Raises EngineError when no scheduler with workers answers."""
    try:
        from distributed import Client
    except ImportError as missing:
        raise EngineError("--engine=dask needs the extra: pip install 'sojourn[dask]'") from missing
    untyped: Any = Client

    class Closing(untyped):  # type: ignore[misc]
        """One that cannot start ends its thread: Dask's is closed by whoever collects it, which may deadlock."""

        def start(self, **how: Any) -> None:
            try:
                super().start(**how)
            except BaseException:
                self.status = "closed"
                self._loop_runner.stop()
                raise

    try:
        plain = engine_address(address).replace(f"{UNSAFE}://", "tcp://").replace("dask://", "tcp://")
        client = Closing(plain, timeout=_CONNECT_S, set_as_default=False)
        with _closed_on_error(client):
            client.wait_for_workers(1, timeout=_CONNECT_S)
    except (TypeError, ValueError) as wrong:  # no kind of address, or none of the certificates that one needs
        raise EngineError(f"--engine: {address}: {str(wrong).splitlines()[0]} (docs/matrix.md)") from wrong
    except OSError as silent:  # TimeoutError is one
        raise EngineError(f"--engine: {address}: no Dask scheduler with workers answers ({silent})") from silent
    return client


@contextmanager
def _closed_on_error(client: Any) -> Iterator[None]:
    """Close the client when what is done with it fails."""
    try:
        yield
    except BaseException:
        client.close()
        raise


def check_workers(client: Any, inputs: str, digest: Digest) -> None:
    """Raise EngineError that names a worker where `digest` does not give `inputs`; one that is lost gives none."""
    from distributed.comm import CommClosedError

    for worker, theirs in client.run(_aside, digest, on_error="return").items():
        if isinstance(theirs, CommClosedError):
            continue
        if isinstance(theirs, BaseException):
            raise EngineError(f"--engine: worker {worker} cannot run this: {type(theirs).__name__}: {theirs}")
        if theirs != inputs:
            raise EngineError(f"--engine: worker {worker}: {_DIFFERENT}")


def threads(client: Any) -> int:
    """Return how many threads all workers have; waits for one. Raises EngineError when there are none."""
    while not (count := sum(client.nthreads().values())):
        try:
            client.wait_for_workers(1, timeout=_CONNECT_S)
        except OSError as silent:
            raise EngineError("--engine: the last Dask worker is gone") from silent
    return int(count)


def places(client: Any) -> int:
    """Return how many machines with browsers all workers have threads and memory for. Raises as `threads`."""
    threads(client)
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    need = memory_bytes(MEMORY)
    fitting = (
        (worker["nthreads"], worker["memory_limit"] // need if worker["memory_limit"] else worker["nthreads"])
        for worker in workers
    )
    return sum(int(min(threads, max(1, room))) for threads, room in fitting)


def check_inputs(inputs: str, digest: Digest) -> None:
    """Raise EngineError on a worker, which may have joined later, that would give other results."""
    if digest() != inputs:
        raise EngineError(f"this worker: {_DIFFERENT}")


def packed(folder: Path) -> bytes:
    """Return all files of a folder as a zip archive."""
    archived = io.BytesIO()
    with zipfile.ZipFile(archived, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return archived.getvalue()


def unpack(archived: object, folder: Path) -> None:
    """Put the files of such an archive into a folder. Raises EngineError for what is none, or has no room there."""
    try:
        with zipfile.ZipFile(io.BytesIO(archived if isinstance(archived, bytes) else b"")) as archive:
            entries = archive.infolist()
            if odd := next((it.filename for it in entries if not _is_inside(it.filename)), None):
                raise EngineError(f"a worker returned a file that leads out of its run: {odd[:80]!r}")
            need, room = sum(it.file_size for it in entries), shutil.disk_usage(folder).free
            if len(entries) > _MOST_FILES or need > min(_MOST_BYTES, room):
                what = f"{len(entries)} files of {need >> 20} MB"
                raise EngineError(
                    f"a worker returned {what}; taken are {_MOST_FILES} of {min(_MOST_BYTES, room) >> 20} MB"
                )
            archive.extractall(folder)
    except EngineError:
        raise
    except (zipfile.BadZipFile, zlib.error, RuntimeError, ValueError, OSError) as wrong:
        raise EngineError(f"a worker returned what is no archive of a run ({wrong})") from wrong


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\\" not in name


class DaskEngine:
    """The threads of all workers, one guest each; the workers' machines need the same Sojourn, kernel and guest.

    What a lost worker was running is run again by another: Dask's own doing. Raises EngineError when the scheduler
    does not answer, has no worker, or a worker would give other results.
    """

    def __init__(self, address: str, inputs: str, digest: Digest | None = None) -> None:
        self._digest = digest = digest or SimulatedInputs()
        self._client = connected(address)
        with _closed_on_error(self._client):
            check_workers(self._client, inputs, digest)
        self._executor = self._client.get_executor(pure=False)

    def free(self, running: int) -> int:
        return threads(self._client) * _AHEAD - running

    def submit(self, job: Job, folder: Path) -> Future[bytes]:
        future: Future[bytes] = self._executor.submit(run_packed, job, self._digest)
        return future

    def collect(self, result: bytes, folder: Path) -> None:
        empty(folder)
        unpack(result, folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown(wait=False)  # cancels what has not begun
        self._client.close()


_DIFFERENT = "its kernel, guest or Sojourn is not this machine's: take the same commit, then `sojourn build` there"


async def _aside(digest: Digest) -> str:
    return await asyncio.to_thread(digest)  # it may build for minutes, and a worker that is silent so long is dropped


def run_packed(job: Job, digest: Digest) -> bytes:
    """Run a job and return its folder as a zip archive."""
    check_inputs(job.inputs, digest)
    from distributed import get_worker

    # Dask sweeps this directory when the worker was killed.
    with tempfile.TemporaryDirectory(dir=get_worker().local_directory) as name:
        perform(job, Path(name))
        return packed(Path(name))
