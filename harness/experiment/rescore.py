# SPDX-License-Identifier: Apache-2.0
"""The scores of a run computed again from its raw files, beside those that it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.hardware.machine.files import replace_file
from sojourn.hardware.machine.programs import package_versions
from sojourn.harness.report.run_page import REPORT, write_report
from sojourn.harness.store.integrity import verify_run
from sojourn.harness.store.loaded import stored_object
from sojourn.harness.store.manifest import Manifest, StoreError, hash_file, read_manifest, reseal
from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.scoring.score import score_run

#: What names an entry of a list of scores, of which the first that all have is taken.
_NAMES = (("phase", "metric"), ("phase", "of", "queue"), ("name",))
#: So many places of a field are told.
_SHOWN = 3


class NotComputedError(StoreError):
    """The scores of a run cannot be computed again; one line that says why."""


class _Absent:
    """What one of two scores does not have; a null is there, and says that there is no figure."""


_ABSENT = _Absent()


@dataclass(frozen=True)
class Rescored:
    """What the raw files of a run say now."""

    scores: Scores
    scorer: str | None
    """Which scorer made the stored scores."""
    differing: tuple[str, ...]
    """A line for each stored score that differs, and for each that only one of the two has."""
    fields: tuple[str, ...]
    """The same, a line a field."""
    counted: str
    """How many have other values, how many are new, how many are gone."""
    void_now: tuple[str, ...]
    """Reasons that the stored scores do not give."""
    altered: bool
    """Whether the stored scores are not those that the manifest holds."""


def rescored(run: Path) -> Rescored:
    """Check the raw files of a run and score them; nothing is written.

    Raises StoreError when a raw file is not as the manifest says or was pruned, RecordError when one is damaged.
    """
    manifest = verify_run(run, derived=(SCORES, REPORT))
    if manifest.pruned:
        raise NotComputedError(f"{run}: cannot be scored again: pruned to make room: {', '.join(manifest.pruned)}")
    check_judges(run, manifest)
    scores, stored = score_run(run), stored_object(run / SCORES)
    known, fresh = _reasons(stored), json.loads(scores.model_dump_json())
    return Rescored(
        scores,
        stored.get("scorer"),
        tuple(differences(stored, fresh)),
        tuple(fields(stored, fresh)),
        counted(stored, fresh),
        tuple(reason for reason in scores.validity.reasons if reason not in known),
        (run / SCORES).exists() and manifest.files.get(SCORES) != hash_file(run / SCORES),
    )


def check_judges(run: Path, manifest: Manifest) -> None:
    """Raise NotComputedError where a package that brought gates of a run is not installed here."""
    here = package_versions()
    if lacking := [name for name in manifest.versions if name.startswith("package ") and name not in here]:
        raise NotComputedError(
            f"{run}: was judged with {', '.join(lacking)}, not installed here; install it, and rescore"
        )


def replace(run: Path, scores: Scores) -> None:
    """Let a run hold these scores, and the status and reasons that follow from them. Raises StoreError, OSError."""
    manifest = read_manifest(run)
    known = _reasons(stored_object(run / SCORES))
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
    """Yield one line for each leaf in which two JSON values differ; entries of a list that have names go by these."""
    for path, before, after in _changes(stored, fresh, where):
        yield f"{path}: stored {_short(before)}, now {_short(after)}"


def fields(stored: Any, fresh: Any) -> Iterator[str]:
    """Yield one line for each field in which two scores differ: how often, and before → after of the first places."""
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
    """In how many places two documents differ, and what only one has: whether a figure that was told still holds."""
    changes = [change for change in _changes(stored, fresh, "") if change[0] != ".scorer"]
    new, gone = (sum(change[side] is _ABSENT for change in changes) for side in (1, 2))
    told = {"with other values": len(changes) - new - gone, "new": new, "gone": gone}
    return ", ".join(f"{count} {what}" for what, count in told.items() if count) or "no value differs"


def _changes(stored: Any, fresh: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    """The path, the stored and the fresh value of each leaf that differs; _ABSENT where one side has none."""
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
    """The entries of a list by what names each; empty where nothing does, or not every one alone."""
    for keys in _NAMES:
        if all(isinstance(entry, dict) and all(key in entry for key in keys) for entry in entries):
            named = {" ".join(str(entry[key]) for key in keys): entry for entry in entries}
            return named if len(named) == len(entries) else {}
    return {}


def _reasons(stored: dict[str, Any]) -> set[str]:
    """What the gates of stored scores said; nothing where they are not of our kind."""
    try:
        return {gate["reason"] for gate in stored["validity"]["gates"]}
    except (LookupError, TypeError):
        return set()


def _short(value: Any, most: int = 60) -> str:
    text = "absent" if value is _ABSENT else json.dumps(value)
    return text if len(text) <= most else text[: most - 1] + "…"
