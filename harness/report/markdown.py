# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown pages: rows, and texts between marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.files import replace_file


class MarksError(CodedError):
    """A Markdown page does not have the marks of a text; one line that says which."""


def markdown_row(cells: Iterable[str]) -> str:
    """Return a row of a table; a `|` in a text does not end its cell."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def markdown_table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table."""
    return "\n".join(map(markdown_row, [heads, ["---"] * len(heads), *rows]))


def write_between(texts: Mapping[tuple[str, str], str], file: Path) -> None:
    """Put each text between its two marks, which are lines of a Markdown file. Raises MarksError if it has none."""
    page = with_marks(file, texts)
    for (begin, end), text in texts.items():
        before, after = page.partition(begin)[0], page.partition(end)[2]
        page = f"{before}{begin}\n\n{text}\n{end}{after}"
    replace_file(file, page.encode())


def with_marks(file: Path, marks: Iterable[tuple[str, str]]) -> str:
    """Return the text of a Markdown file that has all these pairs of marks. Raises MarksError if it has not."""
    page = file.read_text() if file.is_file() else ""
    for begin, end in marks:
        if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
            raise MarksError(f"{file}: does not contain the line `{begin}`, followed by `{end}`", code="missing")
    return page
