# SPDX-License-Identifier: Apache-2.0
"""The files that scoring a run with a victim needs, and that the run does not have."""

from __future__ import annotations

from pathlib import Path

from sojourn.harness.store.manifest import Manifest
from sojourn.scoring.evidence import Setting, needed


def missing_evidence(run: Path, manifest: Manifest) -> list[tuple[str, ...]]:
    """Return the needed files that are not in the manifest: for every file, its possible names.

    Raises RecordError if timeline.json or lab.json is missing or damaged.
    """
    return [names for names in needed(Setting.read(run)) if not manifest.files.keys() & {*names}]


def removed_evidence(run: Path, manifest: Manifest) -> list[str]:
    """Return the names of missing evidence that was pruned, or excluded from a bundle. Raises as `missing_evidence`."""
    removed = {*manifest.pruned, *(manifest.bundle.left_out if manifest.bundle else ())}
    return [name for names in missing_evidence(run, manifest) for name in names if name in removed]
