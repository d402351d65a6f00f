# SPDX-License-Identifier: Apache-2.0
"""A folder of the user's own that our origin serves: a page, or a stream's playlists and segments."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from hardware.machine import cache

MOST_FILES, MOST_BYTES = 20_000, 4 << 30


class FolderError(RuntimeError):
    """A folder that cannot be served; one line that names it."""


@dataclass(frozen=True)
class OwnFolder:
    """What is served: the folder's copy in the cache, where in it one begins, and what names its content."""

    folder: Path
    entry: PurePosixPath
    digest: str

    @property
    def path(self) -> str:
        """Where one begins, as part of an address."""
        return quote(str(self.entry))


def ensure_own_folder(entry: Path) -> OwnFolder:
    """Return a copy of the folder in which the file `entry` lies, by its content. Raises FolderError."""
    source = entry.parent
    try:
        files = list(_files(source))
        digest = cache.digest((str(file.relative_to(source)), _hash(file)) for file in files)
        copy = cache.build_once(cache.root() / "own" / digest, lambda work: _copy(files, source, work))
    except OSError as error:
        raise FolderError(f"{source}: {error.filename or source}: {error.strerror}") from error
    return OwnFolder(copy, PurePosixPath(entry.name), digest)


def _files(folder: Path) -> Iterator[Path]:
    """The regular files in a folder and those below it, in order; a link would be another thing to each reader."""
    number = size = 0
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            file = Path(parent, name)
            if file.is_symlink() or not file.is_file():
                continue
            number, size = number + 1, size + file.stat().st_size
            if number > MOST_FILES or size > MOST_BYTES:
                raise FolderError(
                    f"{folder}: has more than {MOST_FILES} files or {MOST_BYTES >> 30} GiB; "
                    "give a folder with nothing but the page or the stream"
                )
            yield file


def _hash(file: Path) -> bytes:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").digest()


def _copy(files: list[Path], source: Path, target: Path) -> None:
    for file in files:
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    cache.settle(target)
