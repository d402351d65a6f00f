# SPDX-License-Identifier: Apache-2.0
"""TOML that a user or a stranger wrote: all that can be wrong with it is one kind of error."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

_LARGEST = 1 << 20


class TomlError(ValueError):
    """A text is no TOML, or more than anybody writes; one line that does not name its file."""


def read_toml(file: Path) -> dict[str, Any]:
    """Return what a TOML file holds. Raises OSError, TomlError."""
    with file.open("rb") as opened:
        return parse_toml(opened.read(_LARGEST + 1))


def parse_toml(content: bytes) -> dict[str, Any]:
    """Return what a TOML text in UTF-8 holds. Raises TomlError."""
    if len(content) > _LARGEST:
        raise TomlError(f"is larger than {_LARGEST >> 20} MiB")
    try:
        return tomllib.loads(content.decode())
    except RecursionError as deep:
        raise TomlError("no TOML: nested too deeply") from deep
    except ValueError as broken:  # also of a number with more digits than Python reads
        raise TomlError(f"no TOML: {broken}") from broken
