# SPDX-License-Identifier: Apache-2.0
"""The runs of a matrix: which are kept, which are made, and how several runners share them in one folder."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sojourn.hardware.machine.signals import deferred_signals, interruptible_waits
from sojourn.harness.engine.job import Engine, EngineError, failure
from sojourn.harness.matrix.cells.cell_run import CellJob, cache_state, empty, rescore
from sojourn.harness.matrix.results import run_folder
from sojourn.harness.store.claim import Claim, claim

INTERRUPTED = "interrupted before its end"
_LOOK_S = 1.0
"""Longest wait, s: a signal that arrives between Python's last check and the wait is handled after it."""


@dataclass(frozen=True)
class JobOutcome:
    """The outcome of a job: run now, finished before (or by another runner meanwhile), or failed."""

    job: CellJob
    folder: Path
    """The finished run, or the remains of a failed one."""
    status: Literal["ran", "kept", "failed"]
    error: str = ""


def complete(
    jobs: Iterable[CellJob],
    engine: Engine,
    folder: Path,
    *,
    again: bool = False,
    begun: Callable[[CellJob], None] = lambda _job: None,
    keep: bool = False,
) -> Generator[JobOutcome]:
    """Yield the outcome of every job as it becomes known; finished runs are kept in `folder`, the matrix's.

    A run that is finished and whose inputs are the same is not repeated, unless `again`; one that another runner
    is executing is left to it and awaited at the end. Takes ownership of the engine and ends it; if the iteration is
    up, nothing partial stays, or, with `keep`, as failed runs. `begun` is called with every run that starts.
    """
    waiting, busy = deque((job, again) for job in jobs), deque[CellJob]()
    running: dict[Path, tuple[CellJob, Claim]] = {}

    def begin(job: CellJob, again: bool, wait: bool = False) -> JobOutcome | None:
        final = run_folder(folder, job.cell, job.seed)
        if not again and cache_state(job, final) == "done":
            return JobOutcome(job, final, "kept")
        if not (claimed := claim(final, wait=wait)):
            busy.append(job)
        # Looked at again: another runner may have finished it meanwhile.
        elif not again and (state := cache_state(job, final)) in ("done", "unscored"):
            return _kept(job, claimed, rescored=state == "unscored")
        else:
            running[claimed.folder] = job, claimed
            empty(claimed.folder)
            engine.submit(job, claimed.folder)
            begun(job)
        return None

    def end(folder: Path, error: str) -> JobOutcome:
        job, claimed = running.pop(folder)
        if not error:
            try:
                _check(job, folder)
            except Exception as refused:
                error = failure(refused)
        if error:
            return JobOutcome(job, claimed.fail(error), "failed", error)
        return JobOutcome(job, claimed.commit(), "ran")

    interruptible_waits()
    try:
        with engine:
            while waiting or busy or running:
                while waiting and engine.free(len(running)) > 0:
                    with deferred_signals():
                        outcome = begin(*waiting.popleft())
                    if outcome:
                        yield outcome
                if running:
                    for event in engine.events(_LOOK_S):
                        if event.kind == "ended":
                            with deferred_signals():
                                outcome = end(event.folder, event.what)
                            yield outcome
                elif busy and (outcome := begin(busy.popleft(), again=False, wait=True)):
                    yield outcome
    finally:
        for _, claimed in running.values():
            if keep and any(claimed.folder.iterdir()):  # an empty folder would replace an earlier failed run
                claimed.fail(INTERRUPTED)
            else:
                claimed.release()


def _check(job: CellJob, folder: Path) -> None:
    """Score a collected run here if other sources have scored it. Raises EngineError if it is not a run of the job."""
    state = cache_state(job, folder)
    if state == "stale":
        raise EngineError(
            "a worker returned files that are not a run of this cell and seed; run the matrix again", code="damaged"
        )
    if state == "unscored":
        rescore(job, folder)


def _kept(job: CellJob, claimed: Claim, *, rescored: bool) -> JobOutcome:
    """Keep a finished run, with its scores recomputed if necessary, and release the claim to it."""
    try:
        if rescored:
            rescore(job, claimed.final)
    except Exception as error:
        error_text = f"cannot be rescored ({type(error).__name__}: {error}); --again repeats the run"
        return JobOutcome(job, claimed.final, "failed", error_text)
    finally:
        claimed.release()
    return JobOutcome(job, claimed.final, "kept")
