# SPDX-License-Identifier: Apache-2.0
"""The state of a soak, as files: a batch is a folder of run directories, `soak.json` and one small file per attempt.

Each is written beside its name and renamed, so that a reader, and the soak after SIGKILL or a power cut, finds the old
or the new one. The result of an attempt is read from its run directory, never from the memory of a process.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.files import flush, is_full, is_locked, lock, replace_file, sync_folder
from sojourn.hardware.machine.messages import first_wrong
from sojourn.harness.soak.plan import SoakPlan
from sojourn.harness.store.manifest import PARTIAL, StoreError, UnixTime, read_manifest, status_words
from sojourn.harness.store.reasons import Reason

BATCH, ATTEMPTS, PLAN = "soak.json", "attempts", "plan.toml"
RUN = ".run"
"""Suffix of an attempt's file that names its run directory, without `.partial`; its process writes it."""
_BALLAST, _LOCK = ".ballast", ".lock"
_TRIES = 5
#: Reserved for the last records and the summary of a batch that ends on a full disk.
_BALLAST_BYTES = 4 << 20

T = TypeVar("T", bound=BaseModel)
Outcome = Literal["running", "valid", "void", "failed", "killed", "stopped"]


class StateError(CodedError):
    """A folder is not a batch, or one of its files cannot be read; the message names it."""


class BusyError(CodedError):
    """The folder is in use by another soak."""


class Attempt(BaseModel):
    """One started run. Times are Unix seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    number: int
    round: int
    cell: str
    seed: int
    begun: UnixTime
    ended: UnixTime | None = None
    outcome: Outcome = "running"
    """`killed`: the soak was killed, or the machine restarted; it is repeated in its round, and counts for quarantine.
    `stopped`: the user stopped the soak; it does not count."""
    reasons: list[Reason] = []
    """Why it is invalid or failed."""
    run: str | None = None
    """Its run directory in the batch's folder."""
    command_line: list[str] = []
    """As in its run's manifest: the soak's command and the cell."""
    headline: str = ""
    leaks: list[str] = []
    """What it left behind, and what was done about it."""
    memory_mb: float | None = None
    """Resident memory of the soak itself after it."""
    free_gb: float | None = None
    """Free on the disk of the results after it."""

    @property
    def words(self) -> str:
        """The outcome in words."""
        return status_words(self.outcome)


class Batch(BaseModel):
    """`soak.json`: what was started, until when, and how it ended. Times are Unix seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_version: Literal[1] = 1
    plan: str
    """The digest of the plan's text, which is stored next to it as `plan.toml`."""
    plan_path: str
    seed: int
    begun: UnixTime
    until: UnixTime
    ended: UnixTime | None = None
    code: int | None = None
    """Exit code of the soak; none while it runs, or when it was killed and its plan cannot be read any more."""
    cause: str = ""
    """Why it ended before its time."""
    pruned: list[str] = []
    """Pruned files, by their path in the results folder."""


class BatchDirectory:
    """The folder of one batch."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def batch(self) -> Batch:
        """Return `soak.json`. Raises StateError."""
        return _read(self.path / BATCH, Batch)

    def save(self, batch: Batch) -> Batch:
        """Write `soak.json` and return what was written."""
        self._write(self.path / BATCH, batch)
        return batch

    def attempts(self) -> list[Attempt]:
        """Return all attempts in their order. Raises StateError."""
        return [_read(file, Attempt) for file in sorted((self.path / ATTEMPTS).glob("*.json"))]

    def record(self, attempt: Attempt) -> Attempt:
        """Replace the record of an attempt, and return it."""
        self._write(self.file(attempt.number, ".json"), attempt)
        return attempt

    def file(self, number: int, suffix: str) -> Path:
        """Return the file of an attempt with that suffix, e.g. `.log`."""
        return self.path / ATTEMPTS / f"{number:04}{suffix}"

    def run_of(self, attempt: Attempt) -> Path | None:
        """Return the run directory of an attempt, finished or not, as its process reported it."""
        try:
            name = self.file(attempt.number, RUN).read_text()
        except OSError:
            return None
        return next((run for it in (name, name + PARTIAL) if (run := self.path / it).exists()), None)

    def release_ballast(self) -> None:
        """Release the space reserved for the last files of the batch."""
        (self.path / _BALLAST).unlink(missing_ok=True)

    def in_spite_of_a_full_disk(self, write: Callable[[], None]) -> None:
        """Call `write`, and again without the ballast if the disk is full."""
        try:
            write()
        except OSError as error:
            if not is_full(error):
                raise
            self.release_ballast()
            write()

    def _write(self, path: Path, model: BaseModel) -> None:
        content = model.model_dump_json(indent=1).encode() + b"\n"
        self.in_spite_of_a_full_disk(lambda: replace_file(path, content))


def create(plan: SoakPlan, hours: float) -> BatchDirectory:
    """Create the folder of a new batch, named by this second or the next free one. Raises OSError."""
    now = time.time()
    names = (time.strftime("%Y%m%d-%H%M%SZ", time.gmtime(now + later)) for later in itertools.count())
    path = next(path for name in names if not (path := plan.results / name).exists())
    fresh = path.with_name(path.name + PARTIAL)
    (fresh / ATTEMPTS).mkdir(parents=True)
    (fresh / PLAN).write_text(plan.text)
    (fresh / _BALLAST).write_bytes(os.urandom(_BALLAST_BYTES))
    BatchDirectory(fresh).save(
        Batch(plan=plan.digest, plan_path=str(plan.path.resolve()), seed=plan.file.seed, begun=now,
              until=now + hours * 3600)
    )  # fmt: skip
    flush(fresh)
    made = BatchDirectory(fresh.rename(path))
    sync_folder(path.parent)
    return made


def batches(results: Path) -> list[BatchDirectory]:
    """Return the batches in a results folder, oldest first."""
    return [BatchDirectory(file.parent) for file in sorted(results.glob(f"*/{BATCH}")) if file.parent.suffix != PARTIAL]


def opened(place: Path) -> BatchDirectory:
    """Return the batch at `place`, or the newest in a folder of batches. Raises StateError."""
    if (place / BATCH).exists():
        return BatchDirectory(place)
    if folders := batches(place):
        return folders[-1]
    raise StateError(
        f"{place}: neither a batch nor a folder of batches; give the plan's results folder", code="not-a-run"
    )


@contextmanager
def held(results: Path) -> Iterator[None]:
    """Lock a results folder against other soaks for the block. Raises BusyError, OSError (also for a link)."""
    results.mkdir(parents=True, exist_ok=True)
    with open(results / _LOCK, "a", opener=lambda name, how: os.open(name, how | os.O_NOFOLLOW, 0o644)) as file:
        for _ in range(_TRIES):
            if lock(file.fileno()):
                break
            time.sleep(0.1)  # a check of the lock holds it for a moment
        else:
            raise BusyError(
                f"{results}: another soak is running here; see `sojourn soak status {results}`", code="in-use"
            )
        yield


def is_held(results: Path) -> bool:
    """Whether a soak is running in a results folder."""
    return is_locked(results / _LOCK)


def settled(folder: BatchDirectory, attempt: Attempt, error: Reason, otherwise: Outcome = "failed") -> Attempt:
    """Return an attempt whose process has ended, with the outcome from its run directory.

    Where there is no finished one its outcome is `otherwise`; `error` is told where there is none, or where that
    says nothing.
    """
    run = folder.run_of(attempt)
    changes: dict[str, object] = {"outcome": otherwise, "reasons": [error], "ended": _last_sign(folder, attempt, run)}
    if run:
        changes["run"] = run.name
        try:
            manifest = read_manifest(run)
        except StoreError as unreadable:
            return attempt.model_copy(update=changes | {"reasons": [error, Reason.of("unreadable", str(unreadable))]})
        if run.suffix != PARTIAL:
            changes |= {"outcome": manifest.status, "reasons": manifest.reasons, "ended": manifest.finished}
        elif manifest.finished:  # it has its own reason
            changes["reasons"] = manifest.reasons
    return attempt.model_copy(update=changes)


def _last_sign(folder: BatchDirectory, attempt: Attempt, run: Path | None) -> float:
    """Return when a process last wrote a file of an attempt: hours may have passed since its end."""
    files = [folder.file(attempt.number, suffix) for suffix in (".log", RUN)] + (list(run.rglob("*")) if run else [])
    last = max((file.stat().st_mtime for file in files if file.is_file()), default=attempt.begun)
    return min(time.time(), max(attempt.begun, last))


def _read(file: Path, kind: type[T]) -> T:
    try:
        return kind.model_validate_json(file.read_bytes())
    except OSError as missing:
        raise StateError(f"{file}: {missing.strerror}", code="unreadable-file") from missing
    except ValidationError as wrong:
        raise StateError(f"{file}: {first_wrong(wrong, 'it')}", code="damaged") from wrong
