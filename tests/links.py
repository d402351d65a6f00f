# SPDX-License-Identifier: Apache-2.0
"""The links of generated pages: every file exists, and every anchor."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "poster")]
        self.ids += [value or "" for name, value in attrs if name == "id"]


def _read(page: Path) -> _Links:
    (found := _Links()).feed(page.read_text())
    return found


def broken_links(page: Path) -> list[str]:
    """Return the links of a page whose file or anchor does not exist, and ids that it has twice."""
    found = _read(page)
    broken = [name for name in set(found.ids) if found.ids.count(name) > 1]
    for link in dict.fromkeys(found.links):
        parts = urlsplit(link)
        if parts.scheme == "data":
            continue
        target = page.parent / unquote(parts.path) if parts.path else page
        if parts.scheme or not target.exists() or (parts.fragment and parts.fragment not in _read(target).ids):
            broken.append(link)
    return broken
