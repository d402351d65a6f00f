# SPDX-License-Identifier: Apache-2.0
"""The door to a finished run: its manifest, its scores and what was asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hardware.machine.messages import first_wrong
from harness.store.manifest import Manifest, StoreError, read_manifest
from scoring.scores import SCORES, Scores

#: What was asked for that makes no other experiment of it.
_APART = ("seed", "repeat", "results", "asked_lab", "engine", "phases")


class LoadError(StoreError):
    """A run holds no scores of our kind; the text names it and says what makes them."""


@dataclass(frozen=True)
class LoadedRun:
    """A run: where it is, what it scored, what was asked for (options.json; empty where that is not kept)."""

    path: Path
    scores: Scores
    options: dict[str, Any]
    manifest: Manifest

    @property
    def service(self) -> str:
        """Which service was the victim; empty where that is not kept."""
        return str(self.options.get("service", ""))

    @property
    def asked(self) -> dict[str, Any]:
        """What was asked for and who scored it; runs that have all of it alike are repetitions of one experiment."""
        asked = {name: value for name, value in self.options.items() if name not in _APART}
        # The same phases in another order are the same experiment.
        phases = sorted((p["contender"] or "solo", p["seconds"]) for p in self.options.get("phases", []))
        timeline = ", ".join(f"{who} {length:g} s" for who, length in phases)
        named = {"test": self.manifest.test, "cell": self.manifest.cell}
        return {**named, **asked, "timeline": timeline, "scorer": self.scores.scorer}


def load_run(path: Path) -> LoadedRun:
    """Return a run. Raises LoadError when it has no scores, StoreError when it has no manifest or a bad one."""
    options = stored_object(path / "options.json")
    # Where none is asked for a call takes the bit rate that the machine holds, which makes another experiment of it.
    if options.get("call_bitrate_bps", 0) is None:
        options["call_bitrate_bps"] = (stored_object(path / "lab.json").get("call") or {}).get("bitrate_bps")
    return LoadedRun(path, load_scores(path), options, read_manifest(path))


def load_scores(run: Path) -> Scores:
    """Return the scores stored in a run, which need not be finished. Raises LoadError."""
    try:
        return Scores.model_validate_json((run / SCORES).read_bytes())
    except OSError as error:
        raise LoadError(f"{run}: {SCORES}: {error.strerror}; `sojourn rescore` makes it") from error
    except ValidationError as error:
        raise LoadError(f"{run}: {SCORES}: {first_wrong(error)}; `sojourn rescore` makes it") from error


def stored_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a run; an empty one where there is none."""
    try:
        stored = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}
