# SPDX-License-Identifier: Apache-2.0
"""The words of pages and terminals, for comparison with the files in tests/golden."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"

_HIDDEN = {"style", "script"}
_CELLS = {"td", "th"}
_INLINE = {"a", "b", "em", "i", "strong", "span", "code", "small", "sub", "sup", "tspan", "title", "abbr", "br"}
_SPOKEN = ("alt", "aria-label", "placeholder", "title")
#: Times, sizes and versions that differ from run to run.
_CHANGES = {
    r"\d{8}-\d{6}Z(-[a-z0-9_-]*?)(-\d)?(?![\w-])": r"DATE\1",
    r"\d{8}-\d{6}Z": "DATE",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00| UTC)?": "TIME",
    r"\b[0-9a-f]{40,64}\b": "HASH",
}


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _HIDDEN
        self.text += " | " if tag in _CELLS else " " if tag in _INLINE else "\n"
        self.text += " ".join(f"[{value}] " for name, value in attrs if name in _SPOKEN and value)

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _HIDDEN
        self.text += " " if tag in _CELLS | _INLINE else "\n"

    def handle_data(self, data: str) -> None:
        self.text += "" if self._hidden else re.sub(r"\s+", " ", data)


def page_words(html: str) -> str:
    """Return what a reader sees of a page, a line per block, without labels that are numbers and dots' tooltips."""
    (reader := _Words()).feed(html)
    lines = (re.sub(r"\s+", " ", line).strip() for line in reader.text.splitlines())
    return "\n".join(line for line in lines if re.search(r"[^\W\d_]", line) and not re.search(r", run \d+: ", line))


def stable(text: str, changes: Mapping[str, str]) -> str:
    """Return a text in which everything that differs between two runs of one test is replaced, by regex."""
    for pattern, name in {**changes, **_CHANGES}.items():
        text = re.sub(pattern, name, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())
