# SPDX-License-Identifier: Apache-2.0
"""The scores of a run computed again from its raw files, beside those that it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardware.machine.files import replace_file
from hardware.machine.programs import package_versions
from harness.bundle.archive import verify
from harness.report.run_page import REPORT, write_report
from harness.store.manifest import StoreError, hash_file, read_manifest, reseal
from scoring.score import score_run
from scoring.scores import SCORES, Scores


@dataclass(frozen=True)
class Rescored:
    """What the raw files of a run say now."""

    scores: Scores
    differing: tuple[str, ...]
    """A line for each stored score that differs."""
    void_now: tuple[str, ...]
    """Reasons that the stored scores do not give."""
    altered: bool
    """Whether the stored scores are not those that the manifest holds."""


def rescored(run: Path) -> Rescored:
    """Check the raw files of a run and score them; nothing is written.

    Raises StoreError when a raw file is not as the manifest says or was pruned, RecordError when one is damaged.
    """
    manifest = verify(run, derived=(SCORES, REPORT))
    if manifest.pruned:
        raise StoreError(f"{run}: cannot be scored again: pruned to make room: {', '.join(manifest.pruned)}")
    here = package_versions()
    if lacking := [name for name in manifest.versions if name.startswith("package ") and name not in here]:
        raise StoreError(f"{run}: was judged with {', '.join(lacking)}, not installed here; install it, and rescore")
    scores, stored = score_run(run), _stored(run)
    known = _reasons(stored)
    return Rescored(
        scores,
        tuple(differences(stored, json.loads(scores.model_dump_json()))),
        tuple(reason for reason in scores.validity.reasons if reason not in known),
        (run / SCORES).exists() and manifest.files.get(SCORES) != hash_file(run / SCORES),
    )


def replace(run: Path, scores: Scores) -> None:
    """Let a run hold these scores, and the status and reasons that follow from them. Raises StoreError, OSError."""
    manifest = read_manifest(run)
    known = _reasons(_stored(run))
    replace_file(run / SCORES, scores.model_dump_json(indent=1).encode() + b"\n")
    # What no gate said stays; an interrupted run tells why it ended, and no more.
    other = [reason for reason in manifest.reasons if reason not in known]
    reasons = other + [reason for reason in scores.validity.reasons if reason not in other]
    reseal(run, SCORES, reasons=manifest.reasons if manifest.status == "interrupted" else reasons)


def renew_report(run: Path, scores: Scores) -> Path:
    """Write the report of a run again, let its manifest hold it, and return where it is. Raises StoreError, OSError."""
    page = write_report(run, scores)
    reseal(run, page.name)
    return page


def differences(stored: Any, fresh: Any, where: str = "scores") -> Iterator[str]:
    """Yield one line for each leaf in which two JSON values differ."""
    if isinstance(stored, dict) and isinstance(fresh, dict):
        for key in sorted(stored.keys() | fresh.keys()):
            yield from differences(stored.get(key), fresh.get(key), f"{where}.{key}")
    elif isinstance(stored, list) and isinstance(fresh, list) and len(stored) == len(fresh):
        for index, (one, other) in enumerate(zip(stored, fresh, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif stored != fresh:
        yield f"{where}: stored {_short(stored)}, now {_short(fresh)}"


def _stored(run: Path) -> dict[str, Any]:
    try:
        stored = json.loads((run / SCORES).read_text())
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _reasons(stored: dict[str, Any]) -> set[str]:
    """What the gates of stored scores said; nothing where they are not of our kind."""
    try:
        return {gate["reason"] for gate in stored["validity"]["gates"]}
    except (LookupError, TypeError):
        return set()


def _short(value: Any, most: int = 60) -> str:
    text = json.dumps(value)
    return text if len(text) <= most else text[: most - 1] + "…"
