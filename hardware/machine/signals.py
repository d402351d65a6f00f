# SPDX-License-Identifier: Apache-2.0
"""Signals that end this process: they interrupt every wait, and never leave a step half-done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

_ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def unignore_sigint() -> None:
    """Let started programs receive SIGINT even if this process ignores it: SIGINT stops them.

    A shell lets its background jobs ignore SIGINT (`sojourn soak PLAN &` in a script), and programs inherit ignored
    signals, but not handlers.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: None)


def interruptible_waits() -> None:
    """Let SIGINT interrupt a wait without a time limit.

    Polars installs a SIGINT handler with SA_RESTART when it is imported: with it, such a wait continues in the kernel,
    and KeyboardInterrupt is raised only after the wait.
    """
    import polars  # noqa: F401  -- its handler must stand already

    signal.siginterrupt(signal.SIGINT, True)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind as Ctrl-C does, so that everything is undone in order.

    A SIGHUP that is ignored or handled (`nohup`) stays so.
    """

    def unwind(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    interruptible_waits()
    hangs_up = signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    ending = (signal.SIGTERM, signal.SIGHUP) if hangs_up else (signal.SIGTERM,)
    before = {number: signal.signal(number, unwind) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deferred_signals() -> Iterator[Sequence[int]]:
    """Defer terminating signals to the end of the block, so that everything begun in it can be undone.

    Yields the signals received so far. Only the main thread receives signals; in other threads, nothing changes.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _ENDING}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
