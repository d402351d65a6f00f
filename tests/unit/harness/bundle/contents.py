# SPDX-License-Identifier: Apache-2.0
"""All that a run holds, for who looks for what it must not hold."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import zstandard


def unpacked(folder: Path) -> dict[str, bytes]:
    """Every file of a run with what it holds, raw and unpacked."""
    contents = {}
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if path.suffix == ".zst":
                content += zstandard.ZstdDecompressor().stream_reader(content).read()
            elif path.suffix == ".gz":
                content += gzip.decompress(content)
            contents[path.relative_to(folder).as_posix()] = content
    return contents


def told(folder: Path, secrets: Iterable[str]) -> dict[str, list[str]]:
    """File → which of the secrets its name or content tells, in whatever case; recordings of a screen aside."""
    lower, found = [secret.lower() for secret in secrets], {}
    for name, content in unpacked(folder).items():
        held = name.encode().lower() + b"\n" + content.lower()
        if those := [one for one in lower if one.encode() in held]:
            found[name] = those
    return found
