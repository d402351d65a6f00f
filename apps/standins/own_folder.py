# SPDX-License-Identifier: Apache-2.0
"""The user's folder that the lab's origin serves: a page, or a stream's playlists and segments."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from sojourn.hardware.machine import cache
from sojourn.hardware.machine.errors import CodedError

MOST_FILES, MOST_BYTES = 20_000, 4 << 30


class FolderError(CodedError):
    """A folder that cannot be served; one line that names it."""


@dataclass(frozen=True)
class OwnFolder:
    """What is served: the folder's copy in the cache, its entry file, and the digest of its content."""

    folder: Path
    entry: PurePosixPath
    digest: str

    @property
    def path(self) -> str:
        """The entry file's path in an address."""
        return quote(str(self.entry))


def ensure_own_folder(entry: Path) -> OwnFolder:
    """Return a copy of the folder of the file `entry`, cached by content. Raises FolderError."""
    source = entry.parent
    try:
        files = list(_files(source))
        digest = _digest(source, files)
        copy = cache.build_once(cache.root() / "own" / digest, lambda work: _copy(files, source, work, digest))
    except OSError as error:
        raise FolderError(f"{source}: {error.filename or source}: {error.strerror}", code="unreadable-file") from error
    except UnicodeEncodeError as error:
        raise FolderError(
            f"{source}: a file name is not UTF-8: {error.object!r}; rename the file", code="invalid-value"
        ) from error
    return OwnFolder(copy, PurePosixPath(entry.name), digest)


def _files(folder: Path) -> Iterator[Path]:
    """The regular files in a folder and its subfolders that a page may use, in order.

    Symbolic links are skipped, because they mean different files to different readers, and so are hidden files (.git,
    .env).
    """
    number = size = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            file = Path(parent, name)
            if file.is_symlink() or not file.is_file():
                continue
            number, size = number + 1, size + file.stat().st_size
            if number > MOST_FILES or size > MOST_BYTES:
                raise FolderError(
                    f"{folder}: more than {MOST_FILES} files or {MOST_BYTES >> 30} GiB; "
                    "give a folder that holds only the page or the stream",
                    code="too-large",
                )
            yield file


def _digest(folder: Path, files: Iterable[Path]) -> str:
    def content(file: Path) -> bytes:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").digest()

    return cache.digest((str(file.relative_to(folder)), content(file)) for file in files)


def _copy(files: list[Path], source: Path, target: Path, digest: str) -> None:
    for file in files:
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)  # with its mode
    if _digest(target, (target / file.relative_to(source) for file in files)) != digest:
        raise FolderError(
            f"{source}: changed while it was copied; try again when the file no longer changes", code="altered"
        )
    cache.normalise_mtimes(target)
