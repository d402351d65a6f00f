# SPDX-License-Identifier: Apache-2.0
"""How much space a folder of runs takes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def tree_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder; links are not followed, and what vanishes counts as nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def size_words(count: int) -> str:
    """Return a number of bytes as text: `8 MB`, `1.2 GB`."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
