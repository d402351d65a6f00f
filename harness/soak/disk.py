# SPDX-License-Identifier: Apache-2.0
"""Disk space for the next run: free space, and pruning of files that the plan allows."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from sojourn.harness.soak.plan import Prune
from sojourn.harness.soak.state import BatchDirectory, batches
from sojourn.harness.store.manifest import MANIFEST, PARTIAL, SIGNATURE, StoreError, prune, read_manifest

_DAY_S = 86400


def free_bytes(folder: Path) -> int:
    """Return the free bytes on a folder's disk."""
    return shutil.disk_usage(folder).free


def make_room(batch: BatchDirectory, needed: int, rules: Sequence[Prune], notify: Callable[[str], None]) -> list[str]:
    """Prune files named by `rules`, oldest first, until `needed` bytes are free; return their paths.

    A failure to remove a file is reported. The ballast of `batch` is released if not even a manifest fits.
    """
    results, removed = batch.path.parent, list[str]()
    if free_bytes(results) >= needed:
        return removed
    for run, name in candidates(results, rules, time.time()):
        if free_bytes(results) >= needed:
            break
        path = (run / name).relative_to(results).as_posix()
        try:
            batch.in_spite_of_a_full_disk(partial(prune, run, name))
        except (StoreError, OSError) as error:
            notify(f"cannot remove {path} to free space: {error}")
        else:
            removed.append(path)
    return removed


def candidates(results: Path, rules: Sequence[Prune], now: float) -> Iterator[tuple[Path, str]]:
    """Yield run directory and file of everything that `rules` allow to remove, oldest runs first."""
    for batch in batches(results):
        for run in sorted(manifest.parent for manifest in batch.path.glob(f"*/{MANIFEST}")):
            if run.suffix == PARTIAL or (run / SIGNATURE).exists():  # signed runs stay unchanged
                continue
            try:
                manifest = read_manifest(run)
            except StoreError:
                continue
            for rule in rules:
                old = now - (manifest.finished or now) >= rule.older_than_days * _DAY_S
                if old and manifest.status == rule.of and (run / rule.file).is_file():
                    yield run, rule.file
