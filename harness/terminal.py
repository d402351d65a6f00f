# SPDX-License-Identifier: Apache-2.0
"""Progress of long operations: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

#: Interval of lines with the time left, without a terminal, s.
QUIET_S = 20.0


class ProgressCallback(Protocol):
    """Receives the share done of a step, 0 to 1, and the current activity."""

    def __call__(self, share: float, what: str = "") -> None: ...


def named(update: ProgressCallback) -> Callable[[str, float], None]:
    """Return `update` for builders that pass the activity before the share done."""
    return lambda what, share: update(share, what)


@contextmanager
def steps(console: Console | None = None) -> Iterator[Callable[[str], ProgressCallback]]:
    """Show the steps of a set-up as bars: `step(name)` begins one and returns the function for its share done, 0 to 1.

    A cached step shows nothing; without a terminal, a step that takes time prints a line at its start and further lines
    with the time left. Steps may run concurrently, in threads.
    """
    console = console or Console(file=sys.stderr)
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=console,
        transient=False,
        disable=not console.is_terminal,
    )

    def step(name: str) -> ProgressCallback:
        task, begun, last_update = None, 0.0, 0.0

        def update(share: float, what: str = "") -> None:
            nonlocal task, begun, last_update
            if task is None:
                task, begun = bars.add_task(name, total=1.0), time.monotonic()
                last_update = begun
                if not console.is_terminal:
                    console.print(Text(f"setup: {name}"))
            elif not console.is_terminal and (now := time.monotonic()) - last_update > QUIET_S and share > 0:
                last_update = now
                left = clock_text((now - begun) * (1 - share) / share)
                console.print(Text(f"setup: {name} {what}: {share:.0%}, about {left} left".replace(" :", ":")))
            bars.update(task, completed=min(max(share, 0.0), 1.0), description=f"{name} {what}".rstrip())

        return update

    with bars:
        yield step


def real_terminal(capture_manager: Any = None) -> TextIO:
    """Return a stream to the user's standard error, also while pytest captures the descriptor.

    `capture_manager` is pytest's plugin `capturemanager` or None. The caller closes the stream.
    """
    if capture_manager is None:
        return os.fdopen(os.dup(2), "w", buffering=1)
    with capture_manager.global_and_fixture_disabled():
        return os.fdopen(os.dup(2), "w", buffering=1)


def clock_text(seconds: float) -> str:
    """Return a duration as minutes:seconds."""
    whole = max(round(seconds), 0)
    return f"{whole // 60}:{whole % 60:02}"
