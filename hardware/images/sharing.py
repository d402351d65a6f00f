# SPDX-License-Identifier: Apache-2.0
"""Equal files of several folders of the cache, stored once."""

from __future__ import annotations

import filecmp
import os
from contextlib import suppress
from pathlib import Path

from sojourn.hardware.machine import cache

LARGE = 1 << 10
"""Smaller files than this are not shared, bytes."""


def share(folder: Path, other: Path) -> None:
    """Replace large files of `folder` by links to the same files of `other`, if they have the same content and mode.

    Nothing happens between two file systems, or if `other` belongs to another user.
    """
    for path in folder.rglob("*"):
        twin = other / path.relative_to(folder)
        if path.is_symlink() or not path.is_file() or (own := path.stat()).st_size < LARGE or not twin.is_file():
            continue
        theirs = twin.lstat()
        if os.path.samestat(own, theirs):  # already shared: a rename between two links of one file does nothing
            continue
        if (theirs.st_uid, theirs.st_mode) == (os.geteuid(), own.st_mode) and filecmp.cmp(path, twin, shallow=False):
            linked = path.with_name(f".{path.name}.linked")
            with suppress(OSError):
                os.link(twin, linked)
                linked.replace(path)


def share_with_others(root: Path) -> None:
    """Share the files of a userland with those of all userlands in the cache."""
    for other in sorted((*cache.root().glob("guest/[!.]*/root"), *cache.root().glob("desktop/[!.]*/root"))):
        share(root, other)
