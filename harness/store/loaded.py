# SPDX-License-Identifier: Apache-2.0
"""The door to a finished run: its manifest, its scores and what was asked for."""

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

#: What was asked for that makes no other experiment of it.
_APART = ("seed", "repeat", "results", "asked_lab", "engine", "phases")

#: Bytes of a JSON file.
_LARGEST = 64 << 20
#: Beside the scores, what decides which runs are repetitions of one experiment.
_ASKED = ("options.json", "lab.json")


class _AskedPhase(TypedDict):
    contender: str | None
    seconds: float


_PHASES = TypeAdapter(list[_AskedPhase])


class LoadError(StoreError):
    """A run holds no scores of our kind; the text names it and says what makes them."""


@dataclass(frozen=True)
class LoadedRun:
    """A run: where it is, what it scored, what was asked for (options.json; empty where that is not kept)."""

    path: Path
    scores: Scores
    options: dict[str, Any]
    manifest: Manifest

    def sealed(self, *names: str) -> LoadedRun:
        """Return the run; raises LoadError where one of these of its files is not the one that its manifest holds."""
        for name in names:
            check_seal(self.path, name, self.manifest)
        return self

    def whole(self, *derived: str) -> LoadedRun:
        """Return the run; raises LoadError where any of its files but the `derived` ones is not as recorded."""
        return self.sealed(*(name for name in self.manifest.files if name not in derived))

    def drawable(self, *further: str) -> LoadedRun:
        """Return the run as `sealed` does, of the files that its series are drawn from and of `further` ones."""
        from sojourn.scoring.time_series import FILES  # with polars, which few need

        return self.sealed(*FILES, *further)

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
        if asked.get("probe_ecn") == "not-ect":
            del asked["probe_ecn"]  # of runs with one probe: the later ones have it too
        return {**named, **asked, "timeline": timeline, "scorer": self.scores.scorer}


def load_run(path: Path) -> LoadedRun:
    """Return a finished run, valid or void, as it was sealed: the one door to its figures.

    Raises LoadError for a run that did not reach its end, has no scores, or whose scores or options are not those that
    its manifest holds; StoreError when it has no manifest or a bad one.
    """
    manifest = read_manifest(path)
    if path.suffix == PARTIAL or manifest.status == "interrupted" or manifest.finished is None:
        why = f": {manifest.reasons[0]}" if manifest.reasons else ""
        raise LoadError(f"{path}: the run is not finished{why}; it has no figures, what it recorded is kept")
    scores = load_scores(path)
    for name in (SCORES, *_ASKED):
        check_seal(path, name, manifest)
    options = _asked_of(path)
    # Where none is asked for a call takes the bit rate that the machine holds, which makes another experiment of it.
    if options.get("call_bitrate_bps", 0) is None:
        options["call_bitrate_bps"] = (stored_object(path / "lab.json").get("call") or {}).get("bitrate_bps")
    return LoadedRun(path, judged(scores, manifest), options, manifest)


def load_valid_run(path: Path) -> LoadedRun:
    """Return a valid run. Raises as `load_run`, and LoadError for a void one."""
    run = load_run(path)
    if not run.scores.validity.valid:
        why = "; ".join(run.scores.validity.reasons) or "no gate says why"
        raise LoadError(f"{path}: a void run has no figures: {why}; its report.html shows what was recorded")
    return run


def judged(scores: Scores, manifest: Manifest) -> Scores:
    """Return the scores as they may be told: void and without harm where the manifest does not call the run valid."""
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
    """Raise LoadError where a file is not the one that the manifest holds; what neither has is not missed."""
    file, sealed = path / name, manifest.files.get(name)
    if sealed is None and not file.exists():
        return
    if not file.exists():
        raise LoadError(f"{path}: {name} is missing, which the manifest holds")
    try:
        same = hash_file(file) == sealed
    except OSError as error:
        raise LoadError(f"{path}: {name}: {error.strerror}") from error
    if not same:
        mended = "`sojourn rescore --write` makes it again from the raw files" if name == SCORES else "it was altered"
        raise LoadError(f"{path}: {name} is not the one that the manifest holds; {mended}")


def load_scores(run: Path) -> Scores:
    """Return the scores stored in a run, whatever became of it: for what writes runs, never to be told.

    Raises LoadError.
    """
    try:
        return Scores.model_validate_json(_content(run / SCORES))
    except OSError as error:
        raise LoadError(f"{run}: {SCORES}: {error.strerror}; `sojourn rescore` makes it") from error
    except ValueError as error:
        why = first_wrong(error) if isinstance(error, ValidationError) else error
        raise LoadError(f"{run}: {SCORES}: {why}; `sojourn rescore` makes it") from error


def _asked_of(run: Path) -> dict[str, Any]:
    """Return options.json, empty where it is not kept; what is read of it here is of its kind. Raises LoadError."""
    options = stored_object(run / "options.json")
    try:
        _PHASES.validate_python(options.get("phases", []), strict=True)
    except ValidationError as error:
        raise LoadError(f"{run}: options.json: phases: {first_wrong(error)}") from error
    return options


def stored_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a run; an empty one where there is none."""
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
