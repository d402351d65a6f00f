# SPDX-License-Identifier: Apache-2.0
"""Recompute the scores of a run from its raw files, and compare them with the stored ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polars.exceptions import PolarsError

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.rig import Rig
from sojourn.hardware.machine.files import replace_file
from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.programs import package_versions
from sojourn.hardware.machine.signals import deferred_signals
from sojourn.harness.engine.provenance import scoring_digest
from sojourn.harness.store.evidence import removed_evidence
from sojourn.harness.store.integrity import verify_run
from sojourn.harness.store.loaded import cell_of, stored_object, unfinished
from sojourn.harness.store.manifest import (
    PARTIAL,
    REPORT,
    Manifest,
    StoreError,
    hash_file,
    read_manifest,
    reseal,
)
from sojourn.harness.store.reasons import NOT_OF_GATES, of_gates
from sojourn.scoring.schema.files import CELL
from sojourn.scoring.schema.scores import SCORER, SCORES, Scores
from sojourn.scoring.score import score_run
from sojourn.scoring.score_cell import score_cell

#: What names an entry of a list of scores, of which the first that all have is taken.
_NAMES = (("phase", "metric"), ("phase", "of", "queue"), ("name",))
#: Number of places to report per field.
_SHOWN = 3


class NotComputedError(StoreError):
    """The scores of a run cannot be recomputed; one line that says why."""


class _Absent:
    """Marks a value that is missing in one of two scores; null is a value."""


_ABSENT = _Absent()


@dataclass(frozen=True)
class Rescored:
    """The recomputed scores of a run."""

    scores: Scores | dict[str, Any]
    scorer: str | None
    """The scorer of the stored scores; for a cell, the first digits of its digest."""
    now: str
    """The scorer of these scores."""
    differing: tuple[str, ...]
    """One line per score that differs, or that only one of the two has."""
    fields: tuple[str, ...]
    """The same, one line per field."""
    counted: str
    """The numbers of changed, new and missing values."""
    void_now: tuple[str, ...]
    """Reasons that are not in the stored scores."""
    altered: bool
    """Whether the stored scores differ from the manifest's hash."""

    @property
    def outdated(self) -> bool:
        """Whether the stored scores must be replaced: not if only their scorer is another one."""
        return any(self.altered or not line.startswith("scores.scorer: ") for line in self.differing)


def rescored(run: Path) -> Rescored:
    """Check the raw files of a run and score them; nothing is written.

    Raises StoreError if the run is not finished, or if a raw file differs from the manifest, was pruned or excluded
    from a bundle; RecordError if one is damaged.
    """
    if run.name.endswith(PARTIAL):
        raise unfinished(run, read_manifest(run))
    manifest = verify_run(run, derived=(SCORES, REPORT))
    if manifest.pruned:
        raise NotComputedError(
            f"{run}: cannot be rescored, because files were pruned to free space: {', '.join(manifest.pruned)}",
            code="pruned",
        )
    if manifest.bundle and CELL not in manifest.files and (excluded := removed_evidence(run, manifest)):
        raise NotComputedError(
            f"{run}: cannot be rescored, because its bundle excludes files: {', '.join(excluded)}; "
            "rescore the original run",
            code="pruned",
        )
    check_judges(run, manifest)
    scores, stored = scores_from_files(run, manifest), stored_object(run / SCORES)
    known, fresh = _reasons(stored), json.loads(scores_text(scores))
    return Rescored(
        scores,
        scorer_of(stored, manifest),
        scorer_now(run, manifest),
        tuple(differences(stored, fresh)),
        tuple(fields(stored, fresh)),
        counted(stored, fresh),
        tuple(reason for reason in _failed(scores) if reason not in known),
        (run / SCORES).exists() and manifest.files.get(SCORES) != hash_file(run / SCORES),
    )


def scores_from_files(run: Path, manifest: Manifest) -> Scores | dict[str, Any]:
    """Score a run of any kind from its raw files; of a cell's run the document is as read from a file.

    Raises RecordError as `score_run`, NotComputedError for a cell's run that does not hold its window of D_SS,
    StoreError where a file of it is damaged.
    """
    if CELL not in manifest.files:
        return score_run(run)
    window_s, tail_s = _window(run)
    made = cell_of(run)
    specification = made["cell"]
    try:
        cell = Rig.model_validate(made.get("rig", {})).applied(Cell.model_validate(specification))
        scores = score_cell(cell, run, window_s=window_s, tail_s=tail_s)
        document: dict[str, Any] = json.loads(json.dumps(scores.document()))
    except (PolarsError, ValueError, LookupError, TypeError, AttributeError, OSError) as wrong:
        why = str(wrong).splitlines()[:1]
        raise StoreError(f"{run}: cannot be scored: {type(wrong).__name__}: {printable(''.join(why))}") from wrong
    return document


def scores_text(scores: Scores | dict[str, Any]) -> str:
    """Return scores as `scores.json` holds them."""
    text = scores.model_dump_json(indent=1) if isinstance(scores, Scores) else json.dumps(scores, indent=1)
    return text + "\n"


def scorer_of(stored: dict[str, Any], manifest: Manifest) -> str | None:
    """Return which scorer made the stored scores of a run."""
    if CELL not in manifest.files:
        return stored.get("scorer")
    return _digits(manifest.cache.scoring) if manifest.cache else None


def scorer_now(run: Path, manifest: Manifest) -> str:
    """Return which scorer this is, for such a run."""
    return SCORER if CELL not in manifest.files else _digits(scoring_digest(*_window(run)))


def _digits(digest: str) -> str:
    return digest[:12]


def _window(run: Path) -> tuple[float, float]:
    """The window of D_SS of a cell's run: its length, and where it ends before the end, s. Raises NotComputedError."""
    made = stored_object(run / CELL)
    window = made.get("window_s"), made.get("tail_s")
    if not all(isinstance(value, int | float) for value in window):
        raise NotComputedError(
            f"{run}: {CELL} does not hold the window of D_SS; `sojourn matrix NAME` repeats the run", code="damaged"
        )
    return float(window[0] or 0), float(window[1] or 0)


def check_judges(run: Path, manifest: Manifest) -> None:
    """Raise NotComputedError if a package with gates of the run is not installed here."""
    here = package_versions()
    if missing := [name for name in manifest.versions if name.startswith("package ") and name not in here]:
        raise NotComputedError(
            f"{run}: was judged with {', '.join(missing)}, which is not installed here; install it, then rescore",
            code="missing-program",
        )


def replace(run: Path, scores: Scores | dict[str, Any]) -> None:
    """Store these scores in a run, with the resulting status and reasons. Raises StoreError, OSError."""
    manifest = read_manifest(run)
    with deferred_signals():
        replace_file(run / SCORES, scores_text(scores).encode())
        if not isinstance(scores, Scores):  # a cell's gates are judged as it is recorded
            reseal(run, SCORES, scoring=scoring_digest(*_window(run)))
        elif manifest.status == "interrupted":  # it has only the reason for its end
            reseal(run, SCORES)
        else:
            # By their codes: the stored scores may be newer than the manifest, after a kill between the two.
            other = [reason for reason in manifest.reasons if reason.code in NOT_OF_GATES]
            reseal(run, SCORES, reasons=other + of_gates(scores.validity))


def _failed(scores: Scores | dict[str, Any]) -> list[str]:
    return scores.validity.reasons if isinstance(scores, Scores) else []


def differences(stored: Any, fresh: Any, where: str = "scores") -> Iterator[str]:
    """Yield one line per leaf in which two JSON values differ; named entries of a list are matched by name."""
    for path, before, after in _changes(stored, fresh, where):
        yield f"{path}: stored {_short(before)}, now {_short(after)}"


def fields(stored: Any, fresh: Any) -> Iterator[str]:
    """Yield one line per field in which two scores differ: how often, and before → after for the first places."""
    by_field: dict[str, list[tuple[str, Any, Any]]] = {}
    for path, before, after in _changes(stored, fresh, ""):
        by_field.setdefault(re.sub(r"\[[^]]*\]", "[]", path).removeprefix("."), []).append((path, before, after))
    for field, places in by_field.items():
        named = [(re.findall(r"\[([^]]*)\]", path), before, after) for path, before, after in places]
        shown = [
            f"{f'{names[0]}: ' if names else ''}{_short(before, 24)} → {_short(after, 24)}"
            for names, before, after in named[:_SHOWN]
        ]
        further = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        yield f"{field}: {'; '.join(shown)}{further}"


def counted(stored: Any, fresh: Any) -> str:
    """Return the numbers of values that differ in two documents, or that only one has."""
    changes = [change for change in _changes(stored, fresh, "") if change[0] != ".scorer"]
    new, gone = (sum(change[side] is _ABSENT for change in changes) for side in (1, 2))
    counts = {"changed": len(changes) - new - gone, "new": new, "gone": gone}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "no value differs"


def _changes(stored: Any, fresh: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield path, stored and fresh value of every leaf that differs; _ABSENT if one side has none."""
    if isinstance(stored, list) and isinstance(fresh, list):
        named = _named(stored), _named(fresh)
        if all(named):
            for key in dict.fromkeys([*named[0], *named[1]]):
                yield from _changes(named[0].get(key, _ABSENT), named[1].get(key, _ABSENT), f"{where}[{key}]")
            return
        if len(stored) == len(fresh):
            for index, (one, other) in enumerate(zip(stored, fresh, strict=True)):
                yield from _changes(one, other, f"{where}[{index}]")
            return
    if isinstance(stored, dict) and isinstance(fresh, dict):
        for key in sorted(stored.keys() | fresh.keys()):
            yield from _changes(stored.get(key, _ABSENT), fresh.get(key, _ABSENT), f"{where}.{key}")
    elif stored != fresh:
        yield where, stored, fresh


def _named(entries: list[Any]) -> dict[str, Any]:
    """Return the entries of a list by their names; empty if they have no unique names."""
    for keys in _NAMES:
        if all(isinstance(entry, dict) and all(key in entry for key in keys) for entry in entries):
            named = {" ".join(str(entry[key]) for key in keys): entry for entry in entries}
            return named if len(named) == len(entries) else {}
    return {}


def _reasons(stored: dict[str, Any]) -> set[str]:
    """Return the reasons of the gates in stored scores; empty if their format is unknown."""
    try:
        return {gate["reason"] for gate in stored["validity"]["gates"]}
    except (LookupError, TypeError):
        return set()


def _short(value: Any, most: int = 60) -> str:
    text = "absent" if value is _ABSENT else json.dumps(value)
    return text if len(text) <= most else text[: most - 1] + "…"
