# SPDX-License-Identifier: Apache-2.0
"""Jobs on the workers of an existing Dask cluster; what they leave comes to their folders here."""

from __future__ import annotations

import asyncio
import io
import queue
import shutil
import tempfile
import uuid
import zipfile
import zlib
from asyncio import CancelledError
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Self

from sojourn.hardware.machine.messages import printable
from sojourn.harness.engine.job import Channel, Digest, EngineError, Event, Job, failure
from sojourn.harness.options.parsing import UNSAFE, engine_address

_TRIES = 3
"""How often a job begins whose worker is lost; Dask itself begins it again."""
_CONNECT_S = 15
_MOST_FILES, _MOST_BYTES = 100_000, 64 << 30  # of a run, far more than any has


def connected(address: str) -> Any:
    """Return a client of the cluster at `address`. Raises EngineError when no scheduler with workers answers."""
    try:
        from distributed import Client
    except ImportError as missing:
        raise EngineError(
            "--engine=dask needs the extra: pip install 'sojourn[dask]', in a checkout: make setup",
            code="missing-program",
        ) from missing
    untyped: Any = Client

    class Closing(untyped):  # type: ignore[misc]
        """Ends its thread if it cannot start: Dask's client is closed by the garbage collector, which may deadlock."""

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
    except (TypeError, ValueError) as wrong:  # not a valid address, or without the certificates that it needs
        raise EngineError(
            f"--engine: {address}: {str(wrong).splitlines()[0]} (docs/matrix.md)", code="unreachable"
        ) from wrong
    except OSError as silent:  # TimeoutError is one
        raise EngineError(
            f"--engine: {address}: no Dask scheduler with workers answers ({silent})", code="unreachable"
        ) from silent
    return client


@contextmanager
def _closed_on_error(client: Any) -> Iterator[None]:
    """Close the client if the body fails."""
    try:
        yield
    except BaseException:
        client.close()
        raise


def check_workers(client: Any, inputs: str, digest: Digest) -> None:
    """Raise EngineError that names a worker where `digest` differs from `inputs`; lost workers are ignored."""
    from distributed.comm.core import CommClosedError

    for worker, theirs in client.run(_aside, digest, on_error="return").items():
        if isinstance(theirs, CommClosedError):
            continue
        if isinstance(theirs, BaseException):
            raise EngineError(
                f"--engine: worker {worker} cannot run this: {type(theirs).__name__}: {theirs}", code="failed"
            )
        if theirs != inputs:
            raise EngineError(f"--engine: worker {worker}: {_DIFFERENT}", code="other-version")


def places(client: Any, memory_bytes: int) -> int:
    """Return how many jobs of `memory_bytes` all workers have threads and memory for; waits for a worker.

    Raises EngineError when there is none.
    """
    while not (workers := client.scheduler_info(n_workers=-1)["workers"].values()):
        try:
            client.wait_for_workers(1, timeout=_CONNECT_S)
        except OSError as silent:
            raise EngineError("--engine: no Dask worker is left", code="unreachable") from silent
    return sum(
        int(min(it["nthreads"], max(1, it["memory_limit"] // memory_bytes)) if it["memory_limit"] else it["nthreads"])
        for it in workers
    )


def check_inputs(inputs: str, digest: Digest) -> None:
    """Raise EngineError on a worker, which may have joined later, that would give other results."""
    if digest() != inputs:
        raise EngineError(f"this worker: {_DIFFERENT}", code="other-version")


def packed(folder: Path) -> bytes:
    """Return all files of a folder as a zip archive."""
    archived = io.BytesIO()
    with zipfile.ZipFile(archived, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return archived.getvalue()


def unpack(archived: object, folder: Path) -> None:
    """Extract such an archive into a folder. Raises EngineError if it is not one, or there is no room."""
    try:
        with zipfile.ZipFile(io.BytesIO(archived if isinstance(archived, bytes) else b"")) as archive:
            entries = archive.infolist()
            if odd := next((it.filename for it in entries if not _is_inside(it.filename)), None):
                raise EngineError(f"a worker returned a file that leads out of its run: {odd[:80]!r}", code="outside")
            if any(it.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for it in entries):
                raise EngineError(
                    "a worker returned an archive that is packed in another way than workers do", code="unsupported"
                )
            need, room = sum(it.file_size for it in entries), shutil.disk_usage(folder).free
            if len(entries) > _MOST_FILES or need > min(_MOST_BYTES, room):
                what = f"{len(entries)} files of {need >> 20} MB"
                raise EngineError(
                    f"a worker returned {what}; the limit is {_MOST_FILES} files, {min(_MOST_BYTES, room) >> 20} MB",
                    code="too-large",
                )
            archive.extractall(folder)
    except EngineError:
        raise
    except (zipfile.BadZipFile, zlib.error, RuntimeError, ValueError, OSError) as wrong:
        raise EngineError(f"a worker returned no valid archive of a run ({wrong})", code="damaged") from wrong


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\\" not in name


class DaskEngine:
    """The workers of a cluster, a job per thread that has the memory; a job of a lost worker is begun by another.

    The workers' machines need the same Sojourn, kernel and guest.
    """

    def __init__(self, address: str, inputs: str, digest: Digest, memory_bytes: int, ahead: int = 1) -> None:
        """Connect to the scheduler at `address`.

        `inputs` names all that decides what a job of `memory_bytes` gives, as `digest` does where it is called. The
        scheduler gets `ahead` jobs per job that can run, so that no worker waits for this process. Raises EngineError
        when no scheduler answers, it has no worker, or a worker would give other results.
        """
        self._inputs, self._digest, self._memory_bytes, self._ahead = inputs, digest, memory_bytes, ahead
        self._topic, self._news = f"sojourn-{uuid.uuid4()}", queue.SimpleQueue[Any]()
        self._running: dict[Path, Any] = {}
        self._begun = Counter[Path]()
        self._client = connected(address)
        with _closed_on_error(self._client):
            check_workers(self._client, inputs, digest)
            self._client.subscribe_topic(self._topic, lambda event: self._news.put(event[1]))

    def free(self, running: int) -> int:
        return places(self._client, self._memory_bytes) * self._ahead - running

    def submit(self, job: Job, folder: Path) -> None:
        future = self._client.submit(run_packed, job, self._inputs, self._digest, self._topic, str(folder), pure=False)
        self._running[folder], self._begun[folder] = future, 0
        future.add_done_callback(lambda _: self._news.put((str(folder), "over", None)))

    def events(self, timeout_s: float) -> list[Event]:
        try:
            news = self._news.get(timeout=timeout_s)
        except queue.Empty:
            places(self._client, self._memory_bytes)
            return []
        match news:
            case (str(name), str(kind), what) if (folder := Path(name)) in self._running:
                return list(self._read(folder, kind, what))
        return []

    def _read(self, folder: Path, kind: str, what: object) -> Iterator[Event]:
        """Yield what a worker, whatever it sends, reports of a job."""
        match kind, what:
            case "over", None:
                yield Event(folder, "ended", self._collect(self._running.pop(folder), folder))
            case "line", str():
                yield Event(folder, "line", printable(what))
            case "done", float() | int():
                yield Event(folder, "done", float(what))
            case "versions", dict():
                yield Event(folder, "versions", {str(name): printable(str(it)) for name, it in what.items()})
            case "begun", str():
                self._begun[folder] += 1
                if self._begun[folder] > _TRIES:
                    self._running.pop(folder).cancel()
                    yield Event(folder, "ended", f"its worker was lost {_TRIES} times")
                elif self._begun[folder] > 1:
                    yield Event(folder, "line", f"its worker was lost; begun again by {printable(what)}")

    def _collect(self, future: Any, folder: Path) -> str:
        """Put what a job has left into its folder, and return why it failed."""
        try:
            returned = future.result()
            archive, why = returned if isinstance(returned, tuple) and len(returned) == 2 else (None, "")
            unpack(archive, folder)
        except CancelledError:
            return "EngineError: the Dask scheduler is gone"
        except Exception as error:
            return failure(error)
        return str(why)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for future in self._running.values():
            future.release()  # cancels it: nobody else waits for it
        self._client.close()


_DIFFERENT = (
    "its kernel, guest or Sojourn differs from this machine's: check out this commit there, then `sojourn build`"
)


async def _aside(digest: Digest) -> str:
    return await asyncio.to_thread(digest)  # builds may take minutes; a worker silent that long is dropped


class _GivenUpError(Exception):
    """Nobody waits for this job any more, nor for what it raises."""


def run_packed(job: Job, inputs: str, digest: Digest, topic: str, name: str) -> tuple[bytes, str]:
    """Run a job on a worker; return what it has left, as an archive, and why it failed."""
    from distributed import get_worker

    worker: Any = get_worker()  # its types are not known
    task = worker.get_current_task()

    def send(kind: str, what: Any) -> None:
        worker.log_event(topic, (name, kind, what))

    def check() -> None:
        known = worker.state.tasks.get(task)
        if known is None or known.state == "cancelled":
            raise _GivenUpError

    send("begun", worker.address)
    # Dask cleans up this directory if the worker is killed.
    with tempfile.TemporaryDirectory(dir=worker.local_directory) as folder:
        why = ""
        try:
            check_inputs(inputs, digest)
            job(Path(folder), Channel(send, check))
        except (RuntimeError, OSError) as error:
            why = failure(error)
        return packed(Path(folder)), why
