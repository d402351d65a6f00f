# SPDX-License-Identifier: Apache-2.0
"""Log of every command of a run and its output, in a file of the run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sojourn.hardware.machine.place import COMMANDS


@contextmanager
def command_log(first: Path) -> Iterator[Callable[[Path], None]]:
    """Write every command and its output to `first`; the yielded function switches to another file."""
    handlers: list[logging.Handler] = []

    def turn_to(file: Path) -> None:
        handler = logging.FileHandler(file)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        for old in handlers:
            COMMANDS.removeHandler(old)
            old.close()
        handlers[:] = [handler]
        COMMANDS.addHandler(handler)

    before = COMMANDS.level, COMMANDS.propagate
    COMMANDS.setLevel(logging.INFO)
    COMMANDS.propagate = False
    turn_to(first)
    try:
        yield turn_to
    finally:
        COMMANDS.removeHandler(handlers[0])
        handlers[0].close()
        COMMANDS.level, COMMANDS.propagate = before
