# SPDX-License-Identifier: Apache-2.0
"""Access to a finished run: its manifest, scores and options."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, Self, TypeVar

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from sojourn.hardware.machine.errors import Code
from sojourn.hardware.machine.json_text import content
from sojourn.hardware.machine.messages import first_wrong
from sojourn.harness.store.manifest import PARTIAL, Manifest, StoreError, hash_file, read_manifest
from sojourn.scoring.schema.files import CELL, OPTIONS
from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.scoring.validity import Gate, Validity

if TYPE_CHECKING:
    from sojourn.scoring.long_table import LongRow  # with polars, which few need

WITHOUT_EFFECT = "results", "repeat", "engine", "asked_lab"
"""Options that do not change a run's evidence."""
#: Options that do not change the experiment; its phases are those of the timeline.
_APART = (*WITHOUT_EFFECT, "seed", "phases")

#: Bytes of a JSON file.
_LARGEST = 64 << 20
#: Besides the options, what determines which runs are repetitions of one experiment.
_SETTINGS = (OPTIONS, "lab.json")
#: In cell.json, next to the cell, what makes another experiment of it.
_OF_LAB = ("lab", "endpoints", "window_s", "tail_s")


class _StoredPhase(TypedDict):
    contender: str | None
    seconds: float
    at_least: NotRequired[bool]


class _Sender(TypedDict):
    contender: str


class _CellFields(TypedDict):
    flows: list[_Sender]


class _CellFile(TypedDict):
    cell: _CellFields


_PHASES, _CELL = TypeAdapter(list[_StoredPhase]), TypeAdapter(_CellFile)


class LoadError(StoreError):
    """A run has no figures for a command; the text names it and the remedy. `code` is stable."""

    def __init__(self, text: str, *, code: Code = "unreadable-run") -> None:
        super().__init__(text, code=code)


@dataclass(frozen=True)
class LoadedRun:
    """A run of any kind: its path, its options and its manifest.

    `options` is options.json, or cell.json of a cell's run; empty if not kept.
    """

    path: Path
    options: dict[str, Any]
    manifest: Manifest
    scores: Scores | dict[str, Any]

    def require_unaltered(self, *names: str) -> Self:
        """Return the run. Raises LoadError if one of these files differs from its manifest."""
        for name in names:
            check_seal(self.path, name, self.manifest)
        return self

    def whole(self, *derived: str) -> Self:
        """Return the run. Raises LoadError if any file other than the `derived` ones differs from its manifest."""
        return self.require_unaltered(*(name for name in self.manifest.files if name not in derived))

    @property
    def service(self) -> str:
        """The victim's service; empty if unknown or without a victim."""
        return str(self.options.get("service", ""))

    @property
    def seed(self) -> int | None:
        """The seed of the run."""
        return self.options.get("seed", self.manifest.seed)

    @property
    def reasons(self) -> list[str]:
        """Reasons why the run is invalid; empty for a valid one."""
        if self.manifest.status == "valid":
            return []
        return [reason.text for reason in self.manifest.reasons] or [
            f"the manifest calls the run {self.manifest.state}"
        ]

    @property
    def definition(self) -> dict[str, Any]:
        """Options and scorer; runs in which all of them are equal are repetitions of one experiment."""
        raise NotImplementedError

    @property
    def _rigs(self) -> str:
        """Whether each seed drew a rig; runs of both kinds are different experiments."""
        return "drawn" if self.manifest.drawn else "exact"

    @property
    def figures(self) -> list[LongRow]:
        """The rows of the long table, see `sojourn.scoring.long_table`."""
        from sojourn.scoring.long_table import rows_of

        return rows_of(self.scores)


@dataclass(frozen=True)
class VictimRun(LoadedRun):
    """A run with a victim, in a series or a soak."""

    scores: Scores

    def require_raw_files(self, *further: str) -> Self:
        """Return the run after checking, as `require_unaltered` does, the files of its series and `further` ones."""
        from sojourn.scoring.time_series import FILES  # with polars, which few need

        return self.require_unaltered(*FILES, *further)

    @property
    def reasons(self) -> list[str]:
        return self.scores.validity.reasons

    @property
    def figures(self) -> list[LongRow]:
        from sojourn.scoring.picture import judged
        from sojourn.scoring.sound import judged_speech

        self.require_unaltered(judged.QUALITY, judged_speech.SPEECH)
        pictures, speech = judged.read_judged(self.path), judged_speech.read_judged_speech(self.path)
        return [
            *super().figures,
            *(judged.rows_of(pictures, self.scores) if pictures is not None else ()),
            *(judged_speech.rows_of(speech, self.scores) if speech is not None else ()),
        ]

    @property
    def definition(self) -> dict[str, Any]:
        values = {name: value for name, value in self.options.items() if name not in _APART}
        timeline = ", ".join(f"{who} {length} s" for who, length in _in_one_order(self.options.get("phases", [])))
        named = {"test": self.manifest.test, "cell": self.manifest.cell}
        values.pop("exact", None)  # which earlier runs do not say
        values.setdefault("call_cc", "gcc")
        return {**named, **values, "timeline": timeline, "rigs": self._rigs, "scorer": self.scores.scorer}


def _in_one_order(phases: Sequence[_StoredPhase]) -> Iterator[tuple[str, str]]:
    """Yield contender and length (of at least so long: `20+`) as they run, but contenders in order of their names.

    The same contenders in another order are the same experiment.
    """
    contended = iter(sorted((phase["contender"], phase["seconds"]) for phase in phases if phase["contender"]))
    for phase in phases:
        who, seconds = next(contended) if phase["contender"] else ("solo", phase["seconds"])
        yield who, f"{seconds:g}" + "+" * phase.get("at_least", False)


@dataclass(frozen=True)
class CellRun(LoadedRun):
    """A run of a matrix's cell: flows and probes, without a victim."""

    scores: dict[str, Any]

    @property
    def senders(self) -> list[str]:
        """The contender of each flow."""
        return [flow["contender"] for flow in self.options["cell"]["flows"]]

    @property
    def definition(self) -> dict[str, Any]:
        fields = {name: value for name, value in self.options["cell"].items() if value and name != "name"}
        fields |= {name: self.options[name] for name in _OF_LAB if name in self.options}
        values = {path: json.dumps(value) for path, value in _leaves(fields) if value is not None}
        scorer = self.manifest.cache.scoring if self.manifest.cache else ""
        named = {"test": self.manifest.test, "cell": self.manifest.cell}
        return {**named, **values, "rigs": self._rigs, "scorer": scorer}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values in JSON data that hold no others, by their paths (`flows.0.contender`)."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from _leaves(one, f"{path}.{name}" if path else str(name))
    if not isinstance(value, dict | list):
        yield path, value


def load_run(path: Path) -> LoadedRun:
    """Return a finished run of any kind, valid or invalid, with verified files: the only access to its figures.

    Raises LoadError for a run that did not finish, has no scores, or whose scores or specification differ from those
    that its manifest holds; StoreError when it has no manifest or a bad one.
    """
    manifest = read_manifest(path)
    if path.suffix == PARTIAL or manifest.status == "interrupted" or manifest.finished is None:
        raise unfinished(path, manifest)
    return _load_cell(path, manifest) if CELL in manifest.files else _load_victim(path, manifest)


def unfinished(path: Path, manifest: Manifest) -> LoadError:
    """Return the refusal of a run that did not finish, with the first reason."""
    why = f": {manifest.reasons[0]}" if manifest.reasons else ""
    return LoadError(
        f"{path}: the run is not finished{why}; it has no figures, but its recorded files are kept", code="unfinished"
    )


def load_victim_run(path: Path, command: str) -> VictimRun:
    """Return a finished run with a victim, as `load_run`; raises LoadError for another, which `command` cannot read."""
    run = load_run(path)
    if not isinstance(run, VictimRun):
        raise LoadError(
            f"{path}: `sojourn {command}` reads the picture of a victim, and the run of a cell has none; "
            "`sojourn report` shows its figures",
            code="no-victim",
        )
    return run


def _load_victim(path: Path, manifest: Manifest) -> VictimRun:
    scores = load_scores(path)
    for name in (SCORES, *_SETTINGS):
        check_seal(path, name, manifest)
    options = _stored_options(path)
    # By default, a call uses the bit rate that the machine sustains, which changes the experiment.
    if options.get("call_bitrate_bps", 0) is None:
        options["call_bitrate_bps"] = (stored_object(path / "lab.json").get("call") or {}).get("bitrate_bps")
    return VictimRun(path, options, manifest, judged(scores, manifest))


def _load_cell(path: Path, manifest: Manifest) -> CellRun:
    for name in (SCORES, CELL):
        check_seal(path, name, manifest)
    return CellRun(path, cell_of(path), manifest, _load_cell_scores(path))


def _load_cell_scores(run: Path) -> dict[str, Any]:
    if not (scores := stored_object(run / SCORES)):
        raise LoadError(f"{run}: {SCORES}: is missing or damaged; `sojourn rescore --write` computes it")
    return scores


def load_run_scores(run: Path, manifest: Manifest) -> Scores | dict[str, Any]:
    """Return the stored scores of a run of any kind: of a cell's run, the document. Raises LoadError."""
    return _load_cell_scores(run) if CELL in manifest.files else load_scores(run)


def cell_of(run: Path) -> dict[str, Any]:
    """Return the specification of a cell's run; the run may come from a third party, so the types are checked.

    Raises LoadError.
    """
    options = stored_object(run / CELL)
    try:
        _CELL.validate_python(options, strict=True)
    except ValidationError as error:
        raise LoadError(f"{run}: {CELL}: {first_wrong(error)}") from error
    return options


AnyRun = TypeVar("AnyRun", bound=LoadedRun)


def valid(run: AnyRun) -> AnyRun:
    """Return a valid run. Raises LoadError for an invalid one."""
    if run.reasons:
        why = "; ".join(run.reasons)
        raise LoadError(
            f"{run.path}: an invalid run has no figures: {why}; its report.html shows what was recorded",
            code="invalid-run",
        )
    return run


def judged(scores: Scores, manifest: Manifest) -> Scores:
    """Return the scores to present: invalid and without harm if the manifest does not say that the run is valid."""
    if manifest.status == "valid":
        return scores
    gates = scores.validity.gates
    known = {gate.reason for gate in gates if not gate.ok}
    further = [reason.text for reason in manifest.reasons if reason.text not in known]
    if not further and not known:
        further = [f"the manifest calls the run {manifest.state}"]
    more = [Gate(name="run", code="manifest", ok=False, measured=why, limit="", reason=why) for why in further]
    return scores.model_copy(update={"validity": Validity.of([*gates, *more]), "harm": []})


def check_seal(path: Path, name: str, manifest: Manifest) -> None:
    """Raise LoadError if a file differs from the manifest; a file that neither has is not missing."""
    file, sealed = path / name, manifest.files.get(name)
    if sealed is None and not file.exists():
        return
    if not file.exists():
        raise LoadError(f"{path}: {name} is missing, but the manifest lists it", code="missing")
    try:
        same = hash_file(file) == sealed
    except OSError as error:
        raise LoadError(f"{path}: {name}: {error.strerror}", code="unreadable-file") from error
    if not same:
        remedy = (
            "run `sojourn rescore --write` to recompute it from the raw files" if name == SCORES else "it was altered"
        )
        raise LoadError(f"{path}: {name} does not match the manifest; {remedy}", code="altered")


def load_scores(run: Path) -> Scores:
    """Return the scores stored in a run, whatever its status: for code that writes runs, never to present.

    Raises LoadError.
    """
    try:
        return Scores.model_validate_json(content(run / SCORES, _LARGEST))
    except OSError as error:
        raise LoadError(f"{run}: {SCORES}: {error.strerror}; run `sojourn rescore` to create it") from error
    except ValueError as error:
        why = first_wrong(error) if isinstance(error, ValidationError) else error
        raise LoadError(f"{run}: {SCORES}: {why}; run `sojourn rescore` to recreate it") from error


def _stored_options(run: Path) -> dict[str, Any]:
    """Return options.json, empty if not kept; the parts used here have the right types. Raises LoadError."""
    options = stored_object(run / OPTIONS)
    try:
        _PHASES.validate_python(options.get("phases", []), strict=True)
    except ValidationError as error:
        raise LoadError(f"{run}: options.json: phases: {first_wrong(error)}") from error
    return options


def stored_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a run; empty if there is none."""
    try:
        stored = json.loads(content(file, _LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}
