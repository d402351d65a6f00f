# SPDX-License-Identifier: Apache-2.0
"""What terminals and pipes get: tables in their width, and the progress of long operations."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from sojourn.hardware.machine.cache import ProgressCallback
from sojourn.hardware.machine.messages import printable

#: Interval of lines with the time left, without a terminal, s.
QUIET_S = 20.0
UNLIMITED = 10_000
"""Characters of a line outside a terminal, of which no table needs as many."""
#: Characters of a table's first column that others do not take from it.
_NARROWEST = 28
#: Characters of a table next to its cells: of every column, and once.
_PER_COLUMN, _EDGES = 3, 1


def console_of(file: TextIO | None = None) -> Console:
    """Return a console of a stream (default: standard output); in a pipe without COLUMNS, no line is wrapped."""
    console = Console(file=file)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = UNLIMITED
    return console


def complain(text: str) -> None:
    """Print an error as one line on standard error, whatever characters it has."""
    print(f"sojourn: {printable(text)}", file=sys.stderr)


def plain_table(*heads: str) -> Table:
    """Return a table without lines, in which no word is cut."""
    columns = (Column(head, overflow="fold") for head in heads)
    return Table(*columns, box=None, pad_edge=False, header_style="dim")


@dataclass(frozen=True)
class FittedTable:
    """A table, for rich; its first line is its head.

    Where a terminal is too narrow, cells wrap at spaces. Columns for which there is no room follow below, next to the
    first column. No word is cut.
    """

    title: Text
    lines: Sequence[Sequence[Text]]
    note: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.title
        columns = [list(column) for column in zip(*self.lines, strict=True)]
        for widths in _arranged(columns, options.max_width):
            table = Table(header_style="bold", box=SIMPLE_HEAD)
            for number, width in widths.items():
                justify: Any = "right" if number else "left"
                table.add_column(columns[number][0], width=width, justify=justify, overflow="fold")
            for line in self.lines[1:]:
                table.add_row(*(line[number] for number in widths))
            yield table
        if self.note:
            yield Text(self.note, "dim italic")


def _arranged(columns: Sequence[Sequence[Text]], width: int) -> Iterator[dict[int, int]]:
    """Yield the tables that hold all columns in `width` characters: the width of each of their columns, by number."""
    whole = [max(cell_len(cell.plain) for cell in column) for column in columns]
    words = [max(cell_len(word) for cell in column for word in cell.plain.split() or [""]) for column in columns]
    words[0] = max(words[0], min(_NARROWEST, whole[0]))

    def room(numbers: Sequence[int]) -> int:
        """Return the characters that are left for the texts of these columns."""
        return width - _EDGES - _PER_COLUMN * len(numbers) - sum(words[number] for number in numbers)

    left = list(range(1, len(columns)))
    while True:
        taken = [0, *left[:1]]
        for number in left[1:]:
            if room([*taken, number]) < 0:
                break
            taken.append(number)
        left = left[len(taken) - 1 :]
        yield _narrowed({number: whole[number] for number in taken}, words, max(room(taken), 0))
        if not left:
            return


def _narrowed(widths: dict[int, int], least: Sequence[int], spare: int) -> dict[int, int]:
    """Return widths of columns that are together `spare` above the `least` ones: the widest give way first."""
    for _ in range(sum(width - least[number] for number, width in widths.items()) - spare):
        widest = max((number for number in widths if widths[number] > least[number]), key=lambda number: widths[number])
        widths[widest] -= 1
    return widths


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
