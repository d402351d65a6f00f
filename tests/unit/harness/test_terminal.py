# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console
from rich.text import Text

from sojourn.harness.terminal import FittedTable, console_of, plain_table

HEADS = ["", "alone", "with cubic", "with prague", "95% interval", "p (Holm)", "for the victim"]
ROWS = [
    ["effective resolution, 0 while stalled (lines), primary", "720", "0.59 (0.55 to 0.64)", "∞ (6.1 % lost)",
     "0.19 to 0.31", "0.008", "worse"],
    ["RTT of the answered probes (Not-ECT), P99 (ms)", "20.81", "28.06", "+7.26", "n too small", "–", "better"],
]  # fmt: skip


def printed(width: int) -> list[str]:
    table = FittedTable(
        Text("What every contender does to the victim, in one table."),
        [list(map(Text, HEADS)), *(list(map(Text, row)) for row in ROWS)],
    )
    Console(file=(out := io.StringIO()), width=width).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [200, 120, 80, 60, 45])
def test_a_table_fits_its_terminal_and_every_word_is_whole(width: int) -> None:
    lines = printed(width)
    assert max(map(len, lines)) <= width and not any("…" in line for line in lines)
    words = {word for line in lines for word in line.split()}
    assert {word for cell in (*HEADS, *ROWS[0], *ROWS[1]) for word in cell.split()} <= words


def test_columns_without_room_follow_below_next_to_the_first_column() -> None:
    assert sum(line.lstrip().startswith("effective resolution") for line in printed(200)) == 1
    assert sum(line.lstrip().startswith("effective resolution") for line in printed(60)) > 1


def test_a_pipe_gets_lines_of_any_length_and_columns_count_where_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    long = "a sentence of more than eighty characters, as headlines of runs are, with the words of each contender " * 2
    console_of(out := io.StringIO()).print(Text(long))
    assert out.getvalue().count("\n") == 1
    monkeypatch.setenv("COLUMNS", "60")
    console_of(out := io.StringIO()).print(Text(long))
    assert out.getvalue().count("\n") > 2


def test_a_console_of_nothing_is_that_of_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    console_of().print("here")
    console_of(sys.stderr).print("there")
    assert capsys.readouterr() == ("here\n", "there\n")


def test_a_plain_table_cuts_no_word() -> None:
    (table := plain_table("folder", "size")).add_row("20261127-102031Z-video-harm-youtube-dualpi2", "8 MB")
    Console(file=(out := io.StringIO()), width=30).print(table)
    assert "…" not in out.getvalue() and "102031Z" in out.getvalue()
