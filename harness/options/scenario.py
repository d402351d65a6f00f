# SPDX-License-Identifier: Apache-2.0
"""A scenario: a TOML file with the options that say what is measured, and none that say where.

The same file is a run's (`--scenario`), a soak cell's (`scenario = …`) and, each of its loads alone, a matrix's.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hardware.machine.files import expanded
from hardware.machine.messages import did_you_mean
from harness.options.model import OPTIONS, FromFile, OptionsError, names_loads

Value = str | bool
SAYS = {option.name: option.says for option in OPTIONS}
WHY = {
    "who": "only you name programs, accounts, machines and the real service",
    "how": "says where it runs or what becomes of it, not what it is",
}
"""Why a file may not set an option that says this."""
NAMES = tuple(option.name for option in OPTIONS if option.says in ("what", "content"))
"""The options that a scenario may have."""
FLAGS = frozenset(option.name for option in OPTIONS if option.flag)
_PATHS = frozenset(
    {"credentials", "browser", "profile", "clip", "script", "lab-file", "kernel-source", "scenario", "sign"}
)


def with_scenario(given: Mapping[str, Any], folder: Path = Path()) -> dict[str, Any]:
    """Return what is given, and of the scenario that it names, relative to `folder`, the options that it leaves open.

    A timeline that is given and names its own loads leaves the scenario's contenders no place. Raises OptionsError for
    what is no scenario, or has several values of an option.
    """
    if not (named := given.get("scenario")):
        return dict(given)
    file = folder / Path(str(named)).expanduser()
    values = read_scenario(file)
    if several := next((name for name, value in values.items() if isinstance(value, list)), None):
        raise OptionsError(f"{file}: {several}: a run has one; give one here, or run `sojourn matrix {named}`")
    own = {name: value for name, value in given.items() if value is not None}
    if names_loads(own.get("timeline", "short")):
        values.pop("contenders", None)
    return {**given, **values, **own}


def read_scenario(file: Path) -> dict[str, Value | list[Value]]:
    """Return the options of a scenario, each with its value or a list of them. Raises OptionsError."""
    values: dict[str, Value | list[Value]] = {}
    for name, value in read_toml(file).items():
        if name not in NAMES:
            if says := SAYS.get(name):
                raise OptionsError(f"{file}: {name}: {WHY[says]}; give --{name} on the command line")
            hint = did_you_mean(name, NAMES) or f"known: {', '.join(NAMES)}"
            raise OptionsError(f"{file}: {name}: no option; {hint}")
        if value == []:
            raise OptionsError(f"{file}: {name}: an empty list; give one value or several")
        texts = [option_value(f"{file}: {name}", name, it) for it in (value if isinstance(value, list) else [value])]
        place = partial(content, file, name) if SAYS[name] == "content" else partial(FromFile, file=file)
        placed: list[Value] = [place(it) if isinstance(it, str) else it for it in texts]
        values[name] = placed if isinstance(value, list) else placed[0]
    return values


def content(file: Path, name: str, text: str) -> FromFile:
    """Return the address or the path of what is played, as `file` gives it, which may be a stranger's.

    A path is relative to the file and stays in its folder. Raises OptionsError.
    """
    if not is_path(name, text):
        return FromFile(text, file)
    try:
        folder = file.parent.resolve()
        path = (folder / expanded(text)).resolve()
    except (OSError, ValueError, RuntimeError) as wrong:  # which Python's versions tell in several ways
        raise OptionsError(f"{file}: {name}: {text!r} is no path: {wrong}") from wrong
    right = f"or give --{name} on the command line"
    if not path.is_relative_to(folder):
        raise OptionsError(f"{file}: {name}: {text!r} is outside the file's folder; put it in there, {right}")
    if name == "url" and path.parent == folder:
        raise OptionsError(
            f"{file}: {name}: {text!r} would serve all files next to it; put it in a folder of its own, {right}"
        )
    return FromFile(str(path), file)


def is_path(name: str, value: Value) -> bool:
    """Whether an option's value is a path, which is relative to the file that names it."""
    return name in _PATHS or (name == "url" and bool(value) and "://" not in str(value))


def combined(table: Mapping[str, Any]) -> Iterator[tuple[Sequence[str], dict[str, Any]]]:
    """Yield each combination of the values of a table's lists: the chosen ones as texts, and the table with them."""
    lists = {key: value for key, value in table.items() if isinstance(value, list)}
    for chosen in itertools.product(*lists.values()):
        yield [str(value) for value in chosen], {**table, **dict(zip(lists, chosen, strict=True))}


def read_toml(file: Path) -> dict[str, Any]:
    """Return what a TOML file holds. Raises OptionsError."""
    try:
        return tomllib.loads(file.read_text())
    except OSError as missing:
        raise OptionsError(f"{file}: {missing.strerror}") from missing
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise OptionsError(f"{file}: no TOML: {broken}") from broken


def option_value(where: str, name: str, value: Any) -> Value:
    """Return the value of an option as it stands in a TOML file. Raises OptionsError."""
    if name in FLAGS:
        if isinstance(value, bool):
            return value
        raise OptionsError(f"{where}: give true or false")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise OptionsError(f"{where}: give a text in quotes, as after --{name}=")
    return str(value)
