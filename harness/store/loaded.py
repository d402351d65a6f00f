# SPDX-License-Identifier: Apache-2.0
"""Access to a finished run: its manifest, scores and options."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from sojourn.hardware.machine.files import plain
from sojourn.hardware.machine.json_text import bounded
from sojourn.hardware.machine.messages import first_wrong
from sojourn.harness.store.manifest import PARTIAL, Manifest, StoreError, hash_file, read_manifest
from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.scoring.validity import Gate, Validity

#: Options that do not change the experiment.
_APART = ("seed", "repeat", "results", "asked_lab", "engine", "phases")

#: Bytes of a JSON file.
_LARGEST = 64 << 20
#: Besides the options, what determines which runs are repetitions of one experiment.
_ASKED = ("options.json", "lab.json")


class _AskedPhase(TypedDict):
    contender: str | None
    seconds: float


_PHASES = TypeAdapter(list[_AskedPhase])


class LoadError(StoreError):
    """A run holds no valid scores; the message names it and the remedy."""


@dataclass(frozen=True)
class LoadedRun:
    """A run: its path, its scores, its options (options.json; empty if not kept)."""

    path: Path
    scores: Scores
    options: dict[str, Any]
    manifest: Manifest

    def sealed(self, *names: str) -> LoadedRun:
        """Return the run. Raises LoadError if one of these files differs from its manifest."""
        for name in names:
            check_seal(self.path, name, self.manifest)
        return self

    def whole(self, *derived: str) -> LoadedRun:
        """Return the run. Raises LoadError if any file other than the `derived` ones differs from its manifest."""
        return self.sealed(*(name for name in self.manifest.files if name not in derived))

    def drawable(self, *further: str) -> LoadedRun:
        """Return the run after checking, as `sealed` does, the files of its series and `further` ones."""
        from sojourn.scoring.time_series import FILES  # needs polars, which few callers do

        return self.sealed(*FILES, *further)

    @property
    def service(self) -> str:
        """The victim's service; empty if unknown."""
        return str(self.options.get("service", ""))

    @property
    def asked(self) -> dict[str, Any]:
        """Options and scorer; runs in which all of them are equal are repetitions of one experiment."""
        asked = {name: value for name, value in self.options.items() if name not in _APART}
        # The same phases in another order are the same experiment.
        phases = sorted((p["contender"] or "solo", p["seconds"]) for p in self.options.get("phases", []))
        timeline = ", ".join(f"{who} {length:g} s" for who, length in phases)
        named = {"test": self.manifest.test, "cell": self.manifest.cell}
        if asked.get("probe_ecn") == "not-ect":
            del asked["probe_ecn"]  # of runs with one probe: the later ones have it too
        return {**named, **asked, "timeline": timeline, "scorer": self.scores.scorer}


def load_run(path: Path) -> LoadedRun:
    """Return a finished run, valid or invalid, with verified files: the only access to its figures.

    Raises LoadError for a run that did not finish, has no scores, or whose scores or options differ from those that
    its manifest holds; StoreError when it has no manifest or a bad one.
    """
    manifest = read_manifest(path)
    if path.suffix == PARTIAL or manifest.status == "interrupted" or manifest.finished is None:
        why = f": {manifest.reasons[0]}" if manifest.reasons else ""
        raise LoadError(f"{path}: the run is not finished{why}; it has no figures, but its recorded files are kept")
    scores = load_scores(path)
    for name in (SCORES, *_ASKED):
        check_seal(path, name, manifest)
    options = _asked_of(path)
    # By default, a call uses the bit rate that the machine sustains, which changes the experiment.
    if options.get("call_bitrate_bps", 0) is None:
        options["call_bitrate_bps"] = (stored_object(path / "lab.json").get("call") or {}).get("bitrate_bps")
    return LoadedRun(path, judged(scores, manifest), options, manifest)


def load_valid_run(path: Path) -> LoadedRun:
    """Return a valid run. Raises as `load_run`, and LoadError for an invalid one."""
    run = load_run(path)
    if not run.scores.validity.valid:
        why = "; ".join(run.scores.validity.reasons) or "no gate says why"
        raise LoadError(f"{path}: an invalid run has no figures: {why}; its report.html shows what was recorded")
    return run


def judged(scores: Scores, manifest: Manifest) -> Scores:
    """Return the scores to present: invalid and without harm if the manifest does not say that the run is valid."""
    if manifest.status == "valid":
        return scores
    known = scores.validity.reasons
    further = [reason for reason in manifest.reasons if reason not in known]
    if not further and not known:
        further = [f"the manifest calls the run {manifest.status}"]
    gates = [
        Gate(name="run", code="manifest", ok=False, measured=reason, limit="", reason=reason) for reason in further
    ]
    verdict = Validity.of([*scores.validity.gates, *gates])
    return scores.model_copy(update={"validity": verdict, "harm": []})


def check_seal(path: Path, name: str, manifest: Manifest) -> None:
    """Raise LoadError if a file differs from the manifest; a file that neither has is not missing."""
    file, sealed = path / name, manifest.files.get(name)
    if sealed is None and not file.exists():
        return
    if not file.exists():
        raise LoadError(f"{path}: {name} is missing, but the manifest lists it")
    try:
        same = hash_file(file) == sealed
    except OSError as error:
        raise LoadError(f"{path}: {name}: {error.strerror}") from error
    if not same:
        remedy = (
            "run `sojourn rescore --write` to recompute it from the raw files" if name == SCORES else "it was altered"
        )
        raise LoadError(f"{path}: {name} does not match the manifest; {remedy}")


def load_scores(run: Path) -> Scores:
    """Return the scores stored in a run, whatever its status: for code that writes runs, never to present.

    Raises LoadError.
    """
    try:
        return Scores.model_validate_json(_content(run / SCORES))
    except OSError as error:
        raise LoadError(f"{run}: {SCORES}: {error.strerror}; run `sojourn rescore` to create it") from error
    except ValueError as error:
        why = first_wrong(error) if isinstance(error, ValidationError) else error
        raise LoadError(f"{run}: {SCORES}: {why}; run `sojourn rescore` to recreate it") from error


def _asked_of(run: Path) -> dict[str, Any]:
    """Return options.json, empty if not kept; the parts used here have the right types. Raises LoadError."""
    options = stored_object(run / "options.json")
    try:
        _PHASES.validate_python(options.get("phases", []), strict=True)
    except ValidationError as error:
        raise LoadError(f"{run}: options.json: phases: {first_wrong(error)}") from error
    return options


def stored_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a run; empty if there is none."""
    try:
        stored = json.loads(_content(file))
    except (OSError, ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _content(file: Path) -> bytes:
    """The JSON text in a file of a run, which may be somebody else's. Raises OSError, ValueError."""
    with open(file, "rb", opener=plain) as opened:
        if len(content := opened.read(_LARGEST + 1)) > _LARGEST:
            raise ValueError(f"it is larger than {_LARGEST >> 20} MiB")
    return bounded(content)
