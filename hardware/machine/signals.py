# SPDX-License-Identifier: Apache-2.0
"""Signals that end us: they end every wait, and nothing half-way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

_ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def keep_to_ourselves() -> None:
    """Let the programs that we start hear SIGINT even where we ignore it: by it each is told to end.

    A shell has its background jobs ignore SIGINT (`sojourn soak PLAN &` in a script), and what a process ignores, all
    that it starts ignores too; what it handles is theirs to hear.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: None)


def end_waits() -> None:
    """Let SIGINT end a wait that has no time limit.

    Polars sets a handler of SIGINT when it is imported, with SA_RESTART: behind it such a wait goes on in the kernel,
    and KeyboardInterrupt comes once the wait is over.
    """
    import polars  # noqa: F401  -- its handler must stand already

    signal.siginterrupt(signal.SIGINT, True)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind as Ctrl-C does, so that everything is undone in order."""

    def unwind(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    end_waits()
    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def held_back() -> Iterator[Sequence[int]]:
    """Let a signal that ends us wait for the end of the block, so that what is begun in it is known to its undoing.

    Yields the signals that came since. Only the main thread gets signals; in another one nothing is changed.
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
