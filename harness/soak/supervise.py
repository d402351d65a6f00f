# SPDX-License-Identifier: Apache-2.0
"""A process of the soak: in a process group of its own, with a time limit, its words in a log."""

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

#: Between asking a process to end, which lets it undo everything in order, and killing it, s.
GRACE_S = 60.0
_LOOK_S = 0.5


class Ended:
    """How a process ended, and when (`at`, Unix s).

    `error` is empty when it ended well, `said` what it wrote to standard output; `stopped`: the soak ended it.
    """

    def __init__(self, error: str, said: str, *, stopped: bool = False) -> None:
        self.error, self.said, self.stopped, self.at = error, said, stopped, time.time()


def supervise(
    command: Sequence[str],
    log: Path,
    *,
    mark: str,
    limit_s: float,
    stopped: Callable[[], bool],
    grace_s: float = GRACE_S,
) -> Ended:
    """Run `command` to its end and return how that was; it dies with us, and so does all that it started by Place.

    After `limit_s` seconds, or when `stopped` says so, it is asked to end by SIGTERM, and killed with its group
    `grace_s` seconds later. Its standard error goes to `log`. Raises OSError when it cannot be started.
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
    end, why, stop = time.monotonic() + limit_s, "", False
    while process.poll() is None:
        if stop := stopped():
            why = "the soak was stopped"
        elif time.monotonic() > end:
            why = f"not over after {limit_s:.0f} s, its time limit"
        if why:
            _end(process, grace_s)
            break
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_S)
    words = out.read_text(errors="replace").strip()
    out.unlink()
    if why or process.returncode:
        why = why or _told(process.returncode, last_words(log))
    return Ended(why, words, stopped=stop)


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    process.terminate()
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # in the kernel for good: told as left running
            process.wait(grace_s)


def _told(code: int | None, words: str) -> str:
    """Say why a process ended that did not end well: in its own words, unless it was killed in the midst of others."""
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}" + (f"; its last words: {words}" if words else "")
    return words or f"ended with {code} without a word"


def last_words(log: Path) -> str:
    """Return the last line of a log."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
