# SPDX-License-Identifier: Apache-2.0
"""Parts of messages: suggestions, the first error of a model, printable foreign text, numbers of things."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from pydantic import ValidationError


def did_you_mean(word: str, known: Iterable[str], *, most: int = 1, alike: float = 0.6) -> str:
    """Return `did you mean …?` with the closest of `known`; empty if none is at least `alike` (0 to 1) similar."""
    near = difflib.get_close_matches(word, list(known), most, alike)
    return f"did you mean {' or '.join(near)}?" if near else ""


def first_wrong(error: ValidationError, whole: str = "") -> str:
    """Return the first error, `phases.0.end: Field required`; `whole` replaces an empty location."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or whole
    message = first["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def printable(text: str) -> str:
    """Return foreign text in a form that is safe to show on a terminal or a page.

    Characters that move, hide, colour or reverse neighbouring text (control characters, escape sequences, line ends,
    direction overrides) are shown as escapes in Python's notation.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def count_of(count: float, what: str) -> str:
    """Return a number of things, or its mean, in words: `1 run`, `2.5 stalls`."""
    return f"{round(count, 1):g} {what}{'' if count == 1 else 's'}"
