# SPDX-License-Identifier: Apache-2.0
"""Deleting runs and series, and nothing else."""

from __future__ import annotations

import secrets
from pathlib import Path

from sojourn.hardware.machine.files import is_locked, remove_tree
from sojourn.harness.store.manifest import PARTIAL, SET_ASIDE, StoreError, is_run, read_manifest, run_folders

#: What marks the folder of a summary, and that of a soak's attempts.
_SUMMARY, _SOAK, _ATTEMPTS = "summary.json", "soak.json", "attempts"
#: Files next to the runs of a series: pages, tables, plans, locks.
_SUFFIXES = (".html", ".csv", ".json", ".xml", ".toml", ".lock", ".ballast")
_LOCK = ".lock"


def removable(place: Path) -> int:
    """Return the number of runs in a run's folder (1) or in that of a series, which may be removed.

    Raises StoreError for anything else, for a link, and where a process is at work.
    """
    if place.is_symlink():
        raise StoreError(f"{place}: is a link; give the folder itself", code="not-a-file")
    if not place.is_dir():
        raise StoreError(f"{place}: no such folder", code="not-a-folder")
    if is_run(place):
        read_manifest(place)
        runs = [place]
    elif not (runs := run_folders(place)):
        raise StoreError(f"{place}: neither a run nor a series; nothing was deleted", code="not-a-run")
    else:
        _refuse_others(place, runs)
    folders = {place, *runs, *(path.parent for path in runs if path != place), *place.glob("*/"), *place.glob("*/*/")}
    if is_locked(place / _LOCK) or is_locked(place.parent / _LOCK):
        raise StoreError(f"{place}: a batch is running there; wait for its end", code="in-use")
    for folder in sorted(folders):
        if folder.is_dir() and not folder.is_symlink() and is_locked(folder):
            raise StoreError(f"{folder}: is in use by another process; wait for its end", code="in-use")
    return len(runs)


def _refuse_others(place: Path, runs: list[Path]) -> None:
    """Raise StoreError if a folder of runs has anything that no series has."""
    known = {*runs, *(run.parent for run in runs)}
    for path in sorted(place.iterdir()):
        if path.is_symlink() or (path.is_dir() and path not in known and not _is_of_series(path)):
            raise StoreError(
                f"{path}: is no part of a series; {place} was not deleted; delete its runs one by one",
                code="unexpected-file",
            )
        if path.is_file() and not path.name.endswith(_SUFFIXES):
            raise StoreError(f"{path}: is no file of a series; move it, then delete {place}", code="unexpected-file")


def _is_of_series(folder: Path) -> bool:
    """Return whether a folder without a run belongs to a series: a summary, attempts, or the rest of a failed run."""
    attempts = folder.name == _ATTEMPTS and (folder.parent / _SOAK).exists()
    return folder.name.endswith((*SET_ASIDE, PARTIAL)) or (folder / _SUMMARY).exists() or attempts


def remove(place: Path) -> None:
    """Delete the folder of a run or a series; links are not followed. Raises OSError.

    What a kill leaves of it is no run any more.
    """
    aside = place.with_name(f"{place.name}.{secrets.token_hex(4)}{SET_ASIDE[-1]}")
    place.rename(aside)
    remove_tree(aside)
