# SPDX-License-Identifier: Apache-2.0
"""Python distributions without what no run uses: symbol tables, test suites, extensions for other Pythons.

harness/setup.sh runs this file before the environment is complete, so it imports only the standard library:

    python3 -I -B hardware/images/slim.py SITE-PACKAGES
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

UNUSED = (
    *(f"{package}/{name}" for package in ("numpy", "scipy") for name in ("tests", "*/tests", "*/*/tests")),
    "selenium/webdriver/common/macos",
    "selenium/webdriver/common/windows",
    "zstandard/_cffi.*",  # for Pythons that cannot load its other extension
)
"""Patterns of files and folders of distributions."""
#: Smaller savings are not worth another copy, bytes.
_WORTH = 1 << 16
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
_SEGMENT = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr


def slim(folder: Path) -> None:
    """Remove what is UNUSED below `folder`, and the symbol tables of its programs and libraries.

    The result depends only on the files: the same file gives the same bytes on every machine.
    """
    remove(folder, UNUSED)
    for place, _, names in os.walk(folder):
        for name in names:
            if (path := Path(place, name)).is_file() and not path.is_symlink():
                strip(path)


def remove(root: Path, patterns: Iterable[str]) -> None:
    """Remove the files and folders of `root` that match glob patterns."""
    for pattern in patterns:
        for path in list(root.glob(pattern)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def strip(path: Path) -> None:
    """Cut an ELF file after its last segment: what follows (symbols, section names) is never loaded."""
    with path.open("rb") as file:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(b"\x7fELF\x02\x01"):
            return
        (ident, kind, machine, version, entry, segments, _sections, flags, size, segment_size, count, each,
         _section_count, _section_names) = _HEADER.unpack(header)  # fmt: skip
        file.seek(segments)
        table = file.read(segment_size * count)
        ends = [segments + len(table)]
        for at in range(0, len(table), segment_size):
            _type, _flags, offset, _address, _physical, length, *_ = _SEGMENT.unpack_from(table, at)
            ends.append(offset + length)
        end = max(ends)
        if count == 0 or path.stat().st_size - end < _WORTH:
            return
        file.seek(0)
        content = bytearray(file.read(end))
    content[: _HEADER.size] = _HEADER.pack(
        ident, kind, machine, version, entry, segments, 0, flags, size, segment_size, count, each, 0, 0
    )
    part = path.with_name(f".{path.name}.stripped")
    part.write_bytes(content)
    shutil.copystat(path, part)
    part.replace(path)


if __name__ == "__main__":
    slim(Path(sys.argv[1]))
