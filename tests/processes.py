# SPDX-License-Identifier: Apache-2.0
"""Whether processes that a test watches have ended, where init of a container may be slow to collect the dead."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

_GRACE_S = 10.0


def outliving(processes: Iterable[psutil.Process | int]) -> list[psutil.Process]:
    """Return those of the processes (or pids) that still run after some seconds; a zombie has ended.

    What was killed takes its time to end, and who adopted it may collect it late or never.
    """
    watched = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            watched.append(psutil.Process(process) if isinstance(process, int) else process)
    deadline = time.monotonic() + _GRACE_S
    while (left := [process for process in watched if _runs(process)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
