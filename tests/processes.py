# SPDX-License-Identifier: Apache-2.0
"""Processes of tests: whether they have ended, where init of a container may be slow to collect the dead; memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

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


def of_name(processes: Iterable[psutil.Process], *names: str) -> list[psutil.Process]:
    """Return those of the processes that have one of the names, without those that end as they are looked at."""
    return _those(processes, lambda process: process.name() in names)


def of_command(processes: Iterable[psutil.Process], word: str) -> list[psutil.Process]:
    """Return those of the processes with this word in their command, without those that end as they are looked at."""
    return _those(processes, lambda process: word in process.cmdline())


def _those(processes: Iterable[psutil.Process], wanted: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            found += [process] if wanted(process) else []
    return found


def peak_mb() -> int:
    """The most memory that this program has held, MB.

    `ru_maxrss` is no less than what the process held that started this one.
    """
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) >> 10
