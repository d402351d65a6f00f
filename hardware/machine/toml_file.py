# SPDX-License-Identifier: Apache-2.0
"""TOML from users or third parties: any error in it is a TomlError."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

_LARGEST = 1 << 20


class TomlError(ValueError):
    """A text is not TOML, or larger than anybody writes; one line that does not name its file."""


def read_toml(file: Path) -> dict[str, Any]:
    """Parse a TOML file. Raises OSError, TomlError."""
    with file.open("rb") as opened:
        return parse_toml(opened.read(_LARGEST + 1))


def parse_toml(content: bytes) -> dict[str, Any]:
    """Parse a TOML text in UTF-8. Raises TomlError."""
    if len(content) > _LARGEST:
        raise TomlError(f"larger than {_LARGEST >> 20} MiB")
    try:
        return tomllib.loads(content.decode())
    except RecursionError as deep:
        raise TomlError("not valid TOML: nested too deeply") from deep
    except ValueError as broken:  # also a number with more digits than Python accepts
        raise TomlError(f"not valid TOML: {broken}") from broken
