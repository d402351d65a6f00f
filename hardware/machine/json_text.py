# SPDX-License-Identifier: Apache-2.0
"""JSON that a stranger wrote: of few bytes a parser makes objects of many."""

from __future__ import annotations

from pathlib import Path

from sojourn.hardware.machine.files import plain

MOST_VALUES = 1 << 21
"""About how many values a document of a run has at most."""


def content(file: Path, largest: int, most: int = MOST_VALUES) -> bytes:
    """Return the JSON text in a plain file of at most `largest` bytes, as `bounded`. Raises OSError, ValueError."""
    with open(file, "rb", opener=plain) as opened:
        if len(text := opened.read(largest + 1)) > largest:
            raise ValueError(f"it is larger than {largest >> 20} MiB")
    return bounded(text, most)


def bounded(content: bytes, most: int = MOST_VALUES) -> bytes:
    """Return a JSON text. Raises ValueError, before anything is parsed, for one of more than about `most` values."""
    if values(content) > most:
        raise ValueError(f"it has more than {most} values")
    return content


def values(content: bytes) -> int:
    """Return how many values a JSON text may have, its names not counted: each is the first in something, or the next.

    Those within texts count too.
    """
    return content.count(b",") + content.count(b"[") + content.count(b"{")
