# SPDX-License-Identifier: Apache-2.0
"""The contents of a recorded file, compressed or not. It may come from a third party, so decompression is bounded."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import zstandard

#: Captures shrink to a third, irtt's JSON to a twelfth. Below the minimum, any ratio is harmless.
_MAX_RATIO, _LEAST = 100, 64 << 20
_CHUNK = 32 << 20


def unpacked(file: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed if it is a .zst or .gz, some megabytes at a time.

    Raises OSError if it cannot be read, ValueError if it is damaged or larger than any recording.
    """
    most = max(_LEAST, _MAX_RATIO * file.stat().st_size)
    done = 0
    try:
        with file.open("rb") as raw, _content(raw, file.suffix) as content:
            while piece := content.read(_CHUNK):
                done += len(piece)
                if done > most:
                    raise ValueError(f"it unpacks to more than {most >> 20} MiB, as no recording of its size does")
                yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error, zstandard.ZstdError) as damage:
        raise ValueError(str(damage)) from damage


def _content(
    raw: IO[bytes], suffix: str
) -> AbstractContextManager[IO[bytes] | gzip.GzipFile | zstandard.ZstdDecompressionReader]:
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)
    return zstandard.ZstdDecompressor().stream_reader(raw) if suffix == ".zst" else raw
