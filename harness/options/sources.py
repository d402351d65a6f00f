# SPDX-License-Identifier: Apache-2.0
"""Where the values of options come from: a scenario, sojourn.toml and the environment; the command line overrides all.

A scenario is a TOML file with the options that define what is measured, but not where or by whom. The same file is used
for a run (`--scenario`), for a soak's cell (`scenario = …`) and, with every load separately, for a matrix.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from sojourn.apps import SERVICES
from sojourn.apps.options import PLAYERS
from sojourn.hardware.machine import toml_file
from sojourn.hardware.machine.files import distrust, expanded
from sojourn.hardware.machine.messages import did_you_mean
from sojourn.hardware.machine.toml_file import TomlError
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import BY_NAME, FLAGS, OPTIONS, PATHS
from sojourn.harness.options.rules import FromEnvironment, FromFile, names_loads, where_set

FILE = "sojourn.toml"
WHERE = "SOJOURN_DEFAULTS"
"""Environment variable: another defaults file, or empty for none."""
IN_SCENARIOS = tuple(option.name for option in OPTIONS if option.subject in ("what", "content"))
"""The options that a scenario may set."""
WHY = {
    "who": "only you name programs, accounts, machines and the real service",
    "how": "it determines where a run is executed or stored, not what is measured",
}
"""Why a file may not set an option of this kind."""
SCENARIOS = Path(__file__).parent / "scenarios"
"""The scenarios that Sojourn includes."""
EVERY_PLAYER = "all"
"""The value of --player that stands for a map with every player."""
_MOST_COMBINATIONS = 10_000
_YES, _NO = ("1", "true", "yes"), ("", "0", "false", "no")

Value = str | bool


def with_scenario(given: Mapping[str, Any], folder: Path = Path()) -> dict[str, Any]:
    """Return the given options, completed from the scenario that they name, relative to `folder`.

    A given timeline that names its own loads overrides the scenario's contenders. Raises OptionsError for a file that
    is not a scenario, or has several values of an option that is not given.
    """
    table = with_scenarios(given, folder)
    if several := next(iter(lists_of(table)), None):
        if given.get(several) == EVERY_PLAYER:
            why = "a run has one player; use `sojourn harm` or `sojourn map`, or name a player"
            raise OptionsError(
                f"{where_set(several, given[several])}={EVERY_PLAYER}: {why}", code="conflict", option=several
            )
        file, named = scenario_file(given["scenario"], folder), given["scenario"]
        scenario = named if file.parent == SCENARIOS else file
        commands = f"run `sojourn map --scenario={scenario}` or `sojourn matrix {file}`"
        if isinstance(named, FromFile | FromEnvironment):
            commands = f"remove {where_set('scenario', named)} and {commands}"
        why = f"a run takes one value; give one, or {commands}"
        raise _refused(file, several, why, "conflict")
    return table


def with_scenarios(given: Mapping[str, Any], folder: Path = Path()) -> dict[str, Any]:
    """Return what `with_scenario` does, with a list of values where the scenario has several, and of all players for
    EVERY_PLAYER. Raises OptionsError."""
    table = _with_scenarios(given, folder)
    return table | {"player": list(PLAYERS)} if table.get("player") == EVERY_PLAYER else table


def _with_scenarios(given: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    if not (named := given.get("scenario")):
        return dict(given)
    file = scenario_file(named, folder)
    if not file.exists():
        where = where_set("scenario", named)
        included = sorted(it.stem for it in SCENARIOS.glob("*.toml"))
        hint = did_you_mean(str(named), included) or f"included: {', '.join(included)}"
        raise OptionsError(f'{where}: no included scenario and no file "{named}"; {hint}', code="unreadable-file",
                           option="scenario")  # fmt: skip
    values = read_scenario(file)
    own = {name: value for name, value in given.items() if value is not None}
    return without_overridden({**given, **values, **own})


def without_overridden(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table without a scenario's contenders if its timelines are from elsewhere and name their own loads."""
    files = {it.source for it in _values(table, "contenders") if isinstance(it, FromFile)}
    timelines = _values(table, "timeline")
    theirs = any(isinstance(it, FromFile) and it.source in files for it in timelines)
    overridden = files and timelines and not theirs and all(map(names_loads, timelines))
    return {name: value for name, value in table.items() if not (overridden and name == "contenders")}


def _values(table: Mapping[str, Any], name: str) -> list[Any]:
    value = table.get(name)
    return value if isinstance(value, list) else [] if value is None else [value]


def lists_of(table: Mapping[str, Any]) -> dict[str, list[Value]]:
    """Return the options of a table that have several values."""
    return {name: value for name, value in table.items() if isinstance(value, list)}


def scenario_file(named: Any, folder: Path = Path()) -> Path:
    """Return the file of a scenario: a path relative to `folder`, or the name of one that Sojourn includes."""
    included = SCENARIOS / f"{named}.toml"
    file = folder / Path(str(named)).expanduser()
    return included if not file.exists() and included.parent == SCENARIOS and included.exists() else file


def read_scenario(file: Path) -> dict[str, Value | list[Value]]:
    """Return the options of a scenario, each with its value or a list of them. Raises OptionsError."""
    values: dict[str, Value | list[Value]] = {}
    for name, value in read_toml(file).items():
        if name not in IN_SCENARIOS:
            if option := BY_NAME.get(name):
                raise _refused(file, name, f"{WHY[option.subject]}; give --{name} on the command line", "not-from-file")
            hint = did_you_mean(name, IN_SCENARIOS) or f"known: {', '.join(IN_SCENARIOS)}"
            raise _refused(file, name, f"no such option; {hint}", "unknown-option")
        if value == []:
            raise _refused(file, name, "an empty list; give one value or several")
        texts = [toml_value(f"{file}: {name}", name, it) for it in (value if isinstance(value, list) else [value])]
        place = partial(content, file, name) if BY_NAME[name].subject == "content" else partial(FromFile, source=file)
        placed: list[Value] = [place(it) if isinstance(it, str) else it for it in texts]
        values[name] = placed if isinstance(value, list) else placed[0]
    return values


def content(file: Path, name: str, text: str) -> FromFile:
    """Return the address or path of media that `file`, which may come from a third party, sets for option `name`.

    A path is relative to the file and stays in its folder. Raises OptionsError.
    """
    if not is_path(name, text):
        return FromFile(text, file)
    path = within(file, name, text)
    if name == "url" and path.parent == file.parent.resolve():
        why = f"{text!r} would serve all files next to it; move it to its own folder, or give --url on the command line"
        raise _refused(file, name, why, "not-from-file")
    return FromFile(str(path), file)


def within(file: Path, name: str, text: str) -> Path:
    """Return a path relative to `file`, which may come from a third party. Raises OptionsError outside its folder."""
    try:
        folder = file.parent.resolve()
        path = (folder / expanded(text)).resolve()
    except (OSError, ValueError, RuntimeError) as wrong:  # with the message of the Python version
        raise _refused(file, name, f"{text!r} is not a path: {wrong}") from wrong
    if not path.is_relative_to(folder):
        why = f"{text!r} is outside the file's folder; move it there, or give --{name} on the command line"
        raise _refused(file, name, why, "not-from-file")
    return path


def is_path(name: str, value: Value) -> bool:
    """Return whether an option's value is a path, which is relative to the file that names it."""
    return name in PATHS or (name == "url" and bool(value) and "://" not in str(value))


def combined(table: Mapping[str, Any]) -> Iterator[tuple[Sequence[str], dict[str, Any]]]:
    """Yield every combination of the values in a table's lists: the chosen values as texts, and the resulting table.

    Raises OptionsError for more than 10 000 combinations.
    """
    lists = lists_of(table)
    if (count := prod(map(len, lists.values()))) > _MOST_COMBINATIONS:
        why = f"{', '.join(lists)}: {count} combinations; give lists with at most {_MOST_COMBINATIONS}"
        raise OptionsError(why, code="out-of-range", option=next(iter(lists)))
    chosen = itertools.product(*lists.values())
    return (([str(it) for it in one], {**table, **dict(zip(lists, one, strict=True))}) for one in chosen)


def read_toml(file: Path) -> dict[str, Any]:
    """Parse a TOML file. Raises OptionsError."""
    try:
        return toml_file.read_toml(file)
    except OSError as missing:
        raise OptionsError(f"{file}: {missing.strerror}", code="unreadable-file") from missing
    except TomlError as broken:
        raise OptionsError(f"{file}: {broken}", code="unreadable-file") from broken


def toml_value(where: str, name: str, value: Any) -> Value:
    """Return the value of an option in a TOML file. Raises OptionsError."""
    if name in FLAGS:
        if isinstance(value, bool):
            return value
        raise OptionsError(f"{where}: give true or false", option=name)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise OptionsError(f"{where}: give a string in quotes, as after --{name}=", option=name)
    return str(value)


@dataclass(frozen=True)
class Defaults:
    """The user's defaults: for all services, and for individual services."""

    everywhere: Mapping[str, Value] = field(default_factory=dict)
    by_service: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    environment: Mapping[str, Value] = field(default_factory=dict)
    file: Path | None = None

    def of(self, service: str) -> dict[str, Value]:
        """Return the defaults for a service, by the options' names."""
        return {**self.everywhere, **self.by_service.get(service, {}), **self.environment}

    @property
    def service(self) -> str | None:
        """The service to watch if the command line names none."""
        named = {**self.everywhere, **self.environment}.get("service")
        return named if isinstance(named, str) else None

    @property
    def sign(self) -> Path | None:
        """The key that signs runs and bundles."""
        key = {**self.everywhere, **self.environment}.get("sign")
        return Path(str(key)).expanduser() if key else None

    def lines(self, service: str) -> list[str]:
        """Return one line per source with the options that it sets."""
        from_file = {**self.everywhere, **self.by_service.get(service, {})}
        sources = ((str(self.file), from_file), ("the environment", self.environment))
        return [
            f"defaults of {source}: {' '.join(f'--{name}={value}' for name, value in values.items())}"
            for source, values in sources
            if values
        ]


def user_defaults(environment: Mapping[str, str], folder: Path) -> Defaults:
    """Return what `sojourn.toml` in `folder` and the variables SOJOURN_<OPTION> of an environment set.

    The file has general options, and one table per service with different ones: `qdisc = "dualpi2"`, `[o2tv]`,
    `rate = "20mbit"`. A file that the environment does not name may come with a third party's folder: it may name no
    program, account or machine, and no path out of the folder. Raises OptionsError for an unknown option, a missing
    value or an option that such a file may not set.
    """
    file = _defaults_file(environment.get(WHERE), folder)
    tables: dict[str, dict[str, Value]] = {"": {}}
    if file:
        read = partial(_value, file, named=bool(environment.get(WHERE)))
        for name, value in read_toml(file).items():
            if isinstance(value, dict):
                if name not in SERVICES:
                    hint = did_you_mean(name, SERVICES) or ", ".join(SERVICES)
                    raise OptionsError(f"{file}: [{name}]: no such service; {hint}", code="unknown-value")
                tables[name] = {key: read(f"[{name}] {key}", key, text) for key, text in value.items()}
            else:
                tables[""][name] = read(name, name, value)
    given = {
        option.name: _flag(option.variable, environment[option.variable])
        if option.flag
        else FromEnvironment(environment[option.variable], option.variable)
        for option in OPTIONS
        if option.variable in environment
    }
    base = file.parent if file else folder
    tables = {name: with_scenario(table, base) for name, table in tables.items()}
    return Defaults(tables.pop(""), tables, with_scenario(given, folder), file)


def _defaults_file(named: str | None, folder: Path) -> Path | None:
    """Return the user's defaults file, which the environment may name; None if there is none."""
    file = folder / (named or FILE)
    if named == "" or not (named or os.path.lexists(file)):
        return None
    try:
        why = None if named else distrust(file)
    except OSError as missing:  # the target of a symbolic link
        raise OptionsError(f"{file}: {missing.strerror}", code="unreadable-file") from missing
    if why:
        raise OptionsError(f"{file}: {why} ({WHERE}={file})", code="untrusted-file")
    return file


def _value(file: Path, where: str, name: str, value: Any, *, named: bool) -> Value:
    """Return an option's value from a defaults file, which the user `named` or not; paths are relative to it."""
    if not (option := BY_NAME.get(name)):
        hint = did_you_mean(name, BY_NAME) or "`sojourn harm --help` lists them"
        raise OptionsError(f"{file}: {where}: no such option; {hint}", code="unknown-option", option=name)
    if not named and option.subject == "who":
        right = f"give --{name}, set {option.variable}, or name the file ({WHERE}={file})"
        raise OptionsError(f"{file}: {where}: {WHY['who']}; {right}", code="not-from-file", option=name)
    text = toml_value(f"{file}: {where}", name, value)
    if not named and option.subject == "content":
        return content(file, name, str(text))
    if not named and name in ("results", "scenario"):
        path = within(file, name, str(text))
        if name == "scenario" and path.exists() and not path.is_file():
            raise _refused(file, name, f"{str(text)!r} is no plain file", "not-from-file")
    placed = str(file.parent / Path(str(text)).expanduser()) if is_path(name, text) and name != "scenario" else text
    return placed if isinstance(placed, bool) or option.subject == "content" else FromFile(placed, file)


def _flag(variable: str, text: str) -> bool:
    if text.lower() in _YES + _NO:
        return text.lower() in _YES
    raise OptionsError(f"{variable}={text}: give 1 or 0", option=variable.removeprefix("SOJOURN_").lower())


def _refused(file: Path, name: str, why: str, code: Any = "invalid-value") -> OptionsError:
    return OptionsError(f"{file}: {name}: {why}", code=code, option=name)
