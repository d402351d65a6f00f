# SPDX-License-Identifier: Apache-2.0
"""A process of the soak: in its own process group, with a time limit and a log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.place import ENVIRONMENT, LOCAL
from sojourn.harness.soak.leaks import MARK
from sojourn.harness.store.reasons import Reason

#: Time between SIGTERM, which lets a process undo everything in order, and SIGKILL, s.
_GRACE_S = 60.0
_LOOK_S = 0.5


class Ended:
    """How a process ended, and when (`at`, Unix s).

    `error` is None on success, `said` is its standard output; `stopped`: the soak stopped it.
    """

    def __init__(self, error: Reason | None, said: str, *, stopped: bool = False) -> None:
        self.error, self.said, self.stopped, self.at = error, said, stopped, time.time()


def supervise(
    command: Sequence[str],
    log: Path,
    *,
    mark: str,
    limit_s: float,
    stopped: Callable[[], bool],
) -> Ended:
    """Run `command` to completion and return how it ended; it and what it started through Place die with this process.

    After `limit_s` s, or when `stopped` returns True, it gets SIGTERM, and its group is killed a minute later. Its
    standard error goes to `log`. Raises OSError if it cannot be started.
    """
    out = log.with_suffix(".out")
    with log.open("ab") as err, out.open("wb") as said:
        process = subprocess.Popen(
            [*LOCAL.prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=err,
            env=os.environ | {"PATH": ENVIRONMENT["PATH"], MARK: mark},
            cwd=CHECKOUT,
            start_new_session=True,
        )
    end, stop, why = time.monotonic() + limit_s, False, None
    while process.poll() is None:
        if stop := stopped():
            why = Reason.of("stopped", "the soak was stopped")
        elif time.monotonic() > end:
            why = Reason.of("time-limit", f"exceeded its time limit of {limit_s:.0f} s")
        if why:
            _end(process)
            break
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_S)
    words = out.read_text(errors="replace").strip()
    out.unlink()
    if why or process.returncode:
        why = why or _failure(process.returncode, last_words(log))
    return Ended(why, words, stopped=stop)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # stuck in the kernel: reported as left running
            process.wait(_GRACE_S)


def _failure(code: int | None, words: str) -> Reason:
    """Return why a process failed: its last line, unless it was killed."""
    if code is not None and code < 0:
        text = f"killed by {signal.Signals(-code).name}" + (f"; its last output: {words}" if words else "")
        return Reason.of("killed", text)
    return Reason.of("failed", words or f"exited with {code} without output")


def last_words(log: Path) -> str:
    """Return the last line of a log."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
