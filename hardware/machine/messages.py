# SPDX-License-Identifier: Apache-2.0
"""The words of an error in one line: what was meant perhaps, what a model finds wrong first, what others wrote."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from pydantic import ValidationError


def did_you_mean(word: str, known: Iterable[str], *, most: int = 1, alike: float = 0.6) -> str:
    """Return `did you mean …?` with those of `known` that are most alike, empty where none is (0 to 1) so alike."""
    near = difflib.get_close_matches(word, list(known), most, alike)
    return f"did you mean {' or '.join(near)}?" if near else ""


def first_wrong(error: ValidationError, whole: str = "") -> str:
    """Return where the first error is (`whole` where it is all of it) and what: `phases.0.end: Field required`."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or whole
    message = first["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def printable(text: str) -> str:
    """Return foreign text as a terminal or a page may show it.

    Whatever moves, hides, colours or turns around what stands beside it (control characters, escape sequences, line
    ends, direction overrides) is shown as its escape, as Python writes it.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
