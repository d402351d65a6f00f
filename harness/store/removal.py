# SPDX-License-Identifier: Apache-2.0
"""Deleting runs and series, and nothing else."""

from __future__ import annotations

import secrets
from pathlib import Path

from sojourn.hardware.machine.files import FRESH, is_locked, remove_tree
from sojourn.harness.store.manifest import (
    MANIFEST,
    PARTIAL,
    REPORT,
    SET_ASIDE,
    SIGNATURE,
    StoreError,
    is_run,
    read_manifest,
    run_folders,
)

#: What marks the folder of a summary, and that of a soak's attempts.
_SUMMARY, _SOAK, _ATTEMPTS = "summary.json", "soak.json", "attempts"
_LOCK = ".lock"
#: The pages that show all runs of a matrix, and that of a cell in the cell's folder.
_OF_MATRIX, _OF_CELL = (REPORT, "table.csv", "comparison.html"), "cell.html"
#: Files of Sojourn next to the runs of a map, a matrix or a soak.
_FILES = {*_OF_MATRIX, _OF_CELL, "index.html", "compare.html", "junit.xml", "plan.toml", _SOAK, _LOCK, ".ballast"}
_OF_SUMMARY = {_SUMMARY, "summary.csv", REPORT}


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
    for run in runs:
        _refuse_unrecorded(run)
    folders = {place, *runs, *(path.parent for path in runs if path != place), *place.glob("*/"), *place.glob("*/*/")}
    if is_locked(place / _LOCK) or is_locked(place.parent / _LOCK):
        raise StoreError(f"{place}: a batch is running there; wait for its end", code="in-use")
    for folder in sorted(folders):
        if folder.is_dir() and not folder.is_symlink() and is_locked(folder):
            raise StoreError(f"{folder}: is in use by another process; wait for its end", code="in-use")
    return len(runs)


def _refuse_others(place: Path, runs: list[Path]) -> None:
    """Raise StoreError if a folder of runs, or of a cell in it, has anything that no series has, such as a bundle."""
    folders = {place, *(run.parent for run in runs)}
    for path in sorted(path for folder in folders for path in folder.iterdir()):
        if path.is_symlink() or (path.is_dir() and path not in {*runs, *folders} and not _is_of_series(path)):
            raise StoreError(
                f"{path}: is no part of a series; {place} was not deleted; delete its runs one by one",
                code="unexpected-file",
            )
        if path.is_file() and path.name not in _FILES and not path.name.endswith(FRESH):
            raise _unexpected(path, place)


def _refuse_unrecorded(run: Path) -> None:
    """Raise StoreError if a finished run has a file that neither was recorded nor derived from it."""
    if run.suffix == PARTIAL:  # its manifest may list no file
        return
    try:
        manifest = read_manifest(run)
    except StoreError:
        return
    known = {MANIFEST, SIGNATURE, REPORT, *manifest.files, *manifest.pruned}
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        if path.is_file() and not path.is_symlink() and name not in known and not name.endswith(FRESH):
            raise _unexpected(path, run)


def _unexpected(file: Path, place: Path) -> StoreError:
    return StoreError(f"{file}: is no file of Sojourn; move it, then delete {place}", code="unexpected-file")


def _is_of_series(folder: Path) -> bool:
    """Return whether a folder without a run belongs to a series: a summary, attempts, or the rest of a failed run."""
    summary = (folder / _SUMMARY).exists() and {path.name for path in folder.iterdir()} <= _OF_SUMMARY
    attempts = folder.name == _ATTEMPTS and (folder.parent / _SOAK).exists()
    return folder.name.endswith((*SET_ASIDE, PARTIAL)) or summary or attempts


def pages_of_matrix(place: Path) -> list[Path]:
    """Return the pages of a matrix that show the runs of `place`, a run or the folder of a cell; empty of others."""
    of_run = place.name.startswith("seed-")
    if not of_run and not any(place.glob(f"seed-*/{MANIFEST}")):
        return []
    cell = place.parent if of_run else place
    pages = (cell / _OF_CELL, *(cell.parent / name for name in _OF_MATRIX))
    return [page for page in pages if page.exists()]


def remove(place: Path) -> None:
    """Delete the folder of a run or a series; links are not followed. Raises OSError.

    What a kill leaves of it is no run any more.
    """
    aside = place.with_name(f"{place.name}.{secrets.token_hex(4)}{SET_ASIDE[-1]}")
    place.rename(aside)
    remove_tree(aside)
