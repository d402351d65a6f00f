# SPDX-License-Identifier: Apache-2.0
"""The plan of a soak: a TOML file with cells, each the options of one experiment by their command-line names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
)

from sojourn.apps import SERVICES
from sojourn.apps.options import BadValue
from sojourn.hardware.lab.lab_file import PHYSICAL
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.messages import did_you_mean
from sojourn.hardware.machine.toml_file import TomlError, parse_toml
from sojourn.harness.options import parsing
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import BY_NAME, OPTIONS, Options
from sojourn.harness.options.rules import WITH_STEPS, parse_options
from sojourn.harness.options.sources import combined, is_path, toml_value, with_scenario
from sojourn.harness.options.timeline import reordered

#: Time of a run beyond its phases, s: set-up, warm-up, scoring; a guess until the first one has ended.
_AROUND_S = 60.0
#: The options that the soak itself sets for its runs.
_OWN = ("seed", "repeat", "results")
_KEPT = ("manifest.json", "scores.json", "report.html", "options.json", "timeline.json", "lab.json")

Value = StrictStr | StrictBool | StrictInt | StrictFloat


class PlanError(CodedError):
    """A plan cannot work; one line that names file, table and key and says what would be right."""


class _PlanTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Prune(_PlanTable):
    """A file that may be removed from finished runs, oldest first, if disk space runs short."""

    file: str = Field(pattern=r"^[\w.-]+(/[\w.-]+)*$")
    """Its path in the run, e.g. `screen.mp4`."""
    of: Literal["valid", "void"] = "valid"
    older_than_days: float = Field(ge=0)

    @field_validator("file")
    @classmethod
    def _is_raw(cls, name: str) -> str:
        if {".", ".."} & set(name.split("/")):
            raise ValueError(f"{name} leads out of the run, or back into it; give a file's path as in its manifest")
        if name in _KEPT:
            raise ValueError(f"{name} is needed for reports; give a recording or a capture")
        return name


class Disk(_PlanTable):
    """Disk management of a soak."""

    keep_free_gb: float = Field(default=2, ge=0, le=1e9)
    """Space to keep beyond what the next run needs; with less, the soak prunes, then stops."""
    prune: tuple[Prune, ...] = ()


class PlanFile(_PlanTable):
    """The plan as written."""

    results: str = Field(default="soak", min_length=1)
    """Folder of the batches, relative to the plan."""
    seed: int = 1
    """Determines the order of cells in a round and of contenders in a run; run r of a cell has seed + r − 1."""
    rounds: int | None = Field(default=None, ge=1)
    """Number of rounds after which the soak ends early."""
    retries: int = Field(default=1, ge=0, le=10)
    """How often an invalid or failed run is repeated in a round."""
    quarantine: int = Field(default=4, ge=1)
    """Consecutive invalid or failed runs after which a cell is quarantined for the rest of the batch."""
    limit_min: float | None = Field(default=None, gt=0)
    """Time limit of a run, min; default: twice its phases plus five minutes."""
    disk: Disk = Disk()
    options: dict[str, Value] = {}
    """Options of all cells."""
    cells: dict[str, dict[str, Value | list[Value]]] = Field(min_length=1)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all cells."""
        return tuple(" ".join([name, *chosen]) for name, table in self.cells.items() for chosen, _ in combined(table))


@dataclass(frozen=True)
class PlannedCell:
    """One point of the experiment: its options as given and as parsed."""

    name: str
    given: Mapping[str, str | bool]
    options: Options

    @property
    def phases_s(self) -> float:
        """How long its phases are, s."""
        return sum(phase.seconds for phase in self.options.phases)

    @property
    def expected_s(self) -> float:
        """About how long a run of it takes, s."""
        return self.phases_s + _AROUND_S


@dataclass(frozen=True)
class SoakPlan:
    """A plan that has been read and checked."""

    path: Path
    folder: Path
    """The folder that its paths are relative to."""
    results: Path
    """The folder of the batches."""
    text: str
    file: PlanFile
    cells: tuple[PlannedCell, ...]

    @property
    def digest(self) -> str:
        """The digest of the plan's content."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def limit_s(self, cell: PlannedCell) -> float:
        """Return the time limit of a run of `cell`, s."""
        tries = 1 if cell.options.engine == parsing.LOCAL else 3  # a run whose worker is lost is restarted
        return self.file.limit_min * 60 if self.file.limit_min else tries * (2 * cell.phases_s + 300)

    def cell(self, name: str) -> PlannedCell:
        """Return the cell of that name."""
        return next(cell for cell in self.cells if cell.name == name)


def of_round(options: Options, seed: int, round: int, results: Path) -> Options:
    """Return the options of a cell's run in `round` (from 1), with its own seed and order of contenders."""
    return options.replace(seed=seed + round - 1, phases=tuple(reordered(options.phases, seed, round)), results=results)


def read_plan(path: Path, folder: Path | None = None) -> SoakPlan:
    """Read and check a plan whose paths are relative to `folder` (default: its own).

    Raises PlanError for the first thing that cannot work.
    """
    folder = (folder or path.parent).resolve()
    text, file = read_file(path)
    try:  # here, as earlier batches, which `read_file` reads too, may have any seed
        parsing.seed(str(file.seed))
    except BadValue as wrong:
        raise PlanError(f"{path}: seed: {wrong}", code=wrong.code) from wrong
    results = _placed(folder, file.results, f"{path}: results").resolve()
    cells: dict[str, PlannedCell] = {}
    for name, table in file.cells.items():
        _check_names(path, "[options]", file.options)
        _check_names(path, _table(name), table)
        for cell in _expanded(path, folder, name, table, file.options):
            if cell.name in cells:
                raise PlanError(
                    f"{path}: {_table(name)}: two cells are named {cell.name!r}; rename one", code="duplicate"
                )
            if twin := next((other for other in cells.values() if other.options == cell.options), None):
                raise PlanError(
                    f"{path}: {_table(name)}: {cell.name!r} and {twin.name!r} have identical options; remove one",
                    code="duplicate",
                )
            cells[cell.name] = cell
    return SoakPlan(path, folder, results, text, file, tuple(cells.values()))


def read_file(path: Path) -> tuple[str, PlanFile]:
    """Return the text of a plan and its parsed content, with unchecked options of cells. Raises PlanError."""
    try:
        text = path.read_text()
        return text, PlanFile.model_validate(parse_toml(text.encode()))
    except OSError as missing:
        raise PlanError(f"{path}: {missing.strerror}; docs/soak.md shows a plan", code="unreadable-file") from missing
    except UnicodeDecodeError as broken:
        raise PlanError(f"{path}: not valid TOML: {broken}", code="unreadable-file") from broken
    except TomlError as broken:
        raise PlanError(f"{path}: {broken}", code="unreadable-file") from broken
    except ValidationError as wrong:
        raise PlanError(f"{path}: {_error_text(wrong)}", code="invalid-value") from wrong


def _expanded(
    path: Path,
    folder: Path,
    name: str,
    table: Mapping[str, Value | list[Value]],
    shared: Mapping[str, Value],
) -> Iterator[PlannedCell]:
    """Yield the cells of a table: one, or one per combination of the values in its lists."""
    if empty := next((key for key, value in table.items() if value == []), None):
        raise PlanError(
            f"{path}: {_table(name)} {empty}: an empty list; give one value or several", code="invalid-value"
        )
    try:
        combinations = combined(table)
    except OptionsError as many:
        raise PlanError(f"{path}: {_table(name)}: {many}", code=many.code) from many
    for chosen, single in combinations:
        given = {**shared, **single}
        if given.get("lab") in PHYSICAL:
            given.setdefault("lab-file", "lab.toml")
        try:
            texts = {key: toml_value(_where(key, name, table), key, value) for key, value in given.items()}
        except OptionsError as wrong:
            raise PlanError(f"{path}: {wrong}", code=wrong.code) from wrong
        for key in [key for key, text in texts.items() if is_path(key, text)]:
            placed = _placed(folder, str(texts[key]), f"{path}: {_where(key, name, table)}")
            if key != "scenario":  # which may be the name of an included one
                texts[key] = str(placed)
        try:
            own = with_scenario({key: text for key, text in texts.items() if key in table}, folder)
            texts = with_scenario(texts, folder)
            texts.pop("scenario", None)  # which may change before the batch is over
            options = parse_options(own, texts)
            # Only a scenario may have steps beyond the timeline's end, and a run does not know that the text is one's.
            for it in (BY_NAME[name] for name in WITH_STEPS if texts.get(name)):
                if rate_bps := getattr(options, it.field):
                    texts[it.name] = it.word(rate_bps, getattr(options, it.second))
            SERVICES[options.service].from_options(options)
        except OptionsError as wrong:
            raise PlanError(f"{path}: {_located(wrong, name, table)}", code=wrong.code) from wrong
        except (RuntimeError, OSError) as wrong:
            raise PlanError(
                f"{path}: {_table(name)}: {wrong}", code=wrong.code if isinstance(wrong, CodedError) else "failed"
            ) from wrong
        yield PlannedCell(" ".join([name, *chosen]), texts, options)


def _placed(folder: Path, text: str, where: str) -> Path:
    """Return the path of `text` relative to `folder`. Raises PlanError, e.g. for an unknown user's home."""
    try:
        path = folder / Path(text).expanduser()
        path.resolve()  # a path at all, and no loop of links
    except ValueError as wrong:  # which each Python tells in words of its own
        raise PlanError(f"{where}: {text!r}: a path cannot contain a null character", code="invalid-value") from wrong
    except (RuntimeError, OSError) as wrong:
        raise PlanError(f"{where}: {text!r}: {wrong}", code="invalid-value") from wrong
    return path


def _check_names(path: Path, table: str, given: Mapping[str, Any]) -> None:
    known = [option.name for option in OPTIONS if option.name not in _OWN]
    for name in given:
        if name in _OWN:
            raise PlanError(
                f"{path}: {table} {name}: the soak sets it for every run; the plan's own keys are at the top",
                code="conflict",
            )
        if name not in known:
            raise PlanError(f"{path}: {table} {name}: no such option{_near(name, known)}", code="unknown-option")


def _located(wrong: OptionsError, name: str, table: Mapping[str, Any]) -> str:
    """Convert a command-line error, `--rate: …`, to an error about a key in its table."""
    text, option = str(wrong), f"--{wrong.option}: "
    if not text.startswith(option):  # it names the file that gives the value
        return f"{_table(name)}: {text}"
    return f"{_where(wrong.option, name, table)}: {text.removeprefix(option)}"


def _where(key: str, name: str, table: Mapping[str, Any]) -> str:
    return f"{_table(name) if key in table else '[options]'} {key}"


def _table(name: str) -> str:
    return f"[cells.{name}]" if re.fullmatch(r"[\w-]+", name) else f'[cells."{name}"]'


def _error_text(wrong: ValidationError) -> str:
    """Return location and text of the first error, with the closest key if it is unknown."""
    first = wrong.errors()[0]
    # Of a value that may be of several types pydantic names each in the last places.
    steps = [str(step) for step in first["loc"] if str(step) not in ("str", "bool", "int", "float")]
    if steps == ["cells"] and first["type"] in ("missing", "too_short"):
        return "[cells]: no cell; add a table such as [cells.queues] (docs/soak.md)"
    if steps[0] == "cells" and len(steps) > 1:
        where = " ".join([_table(steps[1]), *steps[2:3]])
        if len(steps) > 2:
            return f"{where}: give a string, a number, true or false, or a list of these"
    else:
        *tables, key = steps
        where = f"[{'.'.join(tables)}] {key}" if tables else key
    if first["type"] == "extra_forbidden":
        known = Prune if "prune" in steps[:-1] else Disk if steps[0] == "disk" else PlanFile
        return f"{where}: no such key{_near(steps[-1], list(known.model_fields))}"
    message = first["msg"].removeprefix("Value error, ")
    return f"{where}: {message[:1].lower()}{message[1:]}"


def _near(name: str, known: list[str]) -> str:
    return f"; {did_you_mean(name, known) or 'known: ' + ', '.join(known)}"
