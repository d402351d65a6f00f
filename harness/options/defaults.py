# SPDX-License-Identifier: Apache-2.0
"""A user's own defaults of options: a file, sojourn.toml, and the environment, which goes before it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hardware.machine.files import distrust
from hardware.machine.messages import did_you_mean
from harness.options.model import FORMER, OPTIONS, FromFile, OptionsError
from harness.options.scenario import FLAGS, SAYS, WHY, content, is_path, option_value, read_toml, with_scenario

FILE = "sojourn.toml"
WHERE = "SOJOURN_DEFAULTS"
"""In the environment: another file, or empty for none."""
_PREFIX = "SOJOURN_"
_YES, _NO = ("1", "true", "yes"), ("", "0", "false", "no")


@dataclass(frozen=True)
class Defaults:
    """What a user has set: for all services, and for some."""

    everywhere: Mapping[str, str | bool] = field(default_factory=dict)
    by_service: Mapping[str, Mapping[str, str | bool]] = field(default_factory=dict)
    environment: Mapping[str, str | bool] = field(default_factory=dict)
    file: Path | None = None

    def of(self, service: str) -> dict[str, str | bool]:
        """Return the defaults for a service, by the options' names."""
        return {**self.everywhere, **self.by_service.get(service, {}), **self.environment}

    @property
    def service(self) -> str | None:
        """The service that is watched where the command line names none."""
        named = {**self.everywhere, **self.environment}.get("service")
        return None if named is None else str(named)

    @property
    def sign(self) -> Path | None:
        """The key that signs runs and bundles."""
        key = {**self.everywhere, **self.environment}.get("sign")
        return Path(str(key)).expanduser() if key else None

    def lines(self, service: str) -> list[str]:
        """Tell in a line each what is set and where, for who wonders."""
        from_file = {**self.everywhere, **self.by_service.get(service, {})}
        sources = ((str(self.file), from_file), ("the environment", self.environment))
        return [
            f"defaults of {source}: {' '.join(f'--{name}={value}' for name, value in values.items())}"
            for source, values in sources
            if values
        ]


def user_defaults(environment: Mapping[str, str], folder: Path, services: Collection[str]) -> Defaults:
    """Return what `sojourn.toml` in `folder` and the variables SOJOURN_<OPTION> of an environment set.

    The file has options at its top and a table for each service that has other ones:
    `qdisc = "dualpi2"`, `[o2tv]`, `rate = "20mbit"`. A file that the environment does not name may come with a folder
    of somebody else's: it names no program, account or machine, and no path out of the folder. Raises OptionsError for
    what is no option, has no value or is not for such a file.
    """
    where = environment.get(WHERE)
    file = None if where == "" else folder / (where or FILE)
    tables: dict[str, dict[str, str | bool]] = {"": {}}
    if file and (where or os.path.lexists(file)):
        try:
            why = None if where else distrust(file)
        except OSError as missing:  # what a link leads to
            raise OptionsError(f"{file}: {missing.strerror}") from missing
        if why:
            raise OptionsError(f"{file}: {why} ({WHERE}={file})")
        read = partial(_value, file, named=bool(where))
        for name, value in read_toml(file).items():
            if isinstance(value, dict):
                if name not in services:
                    known = ", ".join(services)
                    raise OptionsError(f"{file}: [{name}]: no service is called so; {_hint(name, services, known)}")
                tables[name] = {key: read(f"[{name}]: {key}", key, text) for key, text in value.items()}
            else:
                tables[""][name] = read(name, name, value)
    else:
        file = None
    variables = {_variable(option.name): option.name for option in OPTIONS}
    for name, instead in FORMER.items():
        if (variable := _variable(name)) in environment:
            raise OptionsError(f"{variable}: is no option any more: {instead}")
    given = {
        name: _flag(variable, environment[variable]) if name in FLAGS else environment[variable]
        for variable, name in variables.items()
        if variable in environment
    }
    beside = file.parent if file else folder
    tables = {name: with_scenario(table, beside) for name, table in tables.items()}
    return Defaults(tables.pop(""), tables, with_scenario(given, folder), file)


def _value(file: Path, where: str, name: str, value: Any, *, named: bool) -> str | bool:
    """The value of an option in a file, which the user `named` or not; a path is relative to the file."""
    if name in FORMER:
        raise OptionsError(f"{file}: {where}: is no option any more: {FORMER[name]}")
    if name not in (known := [option.name for option in OPTIONS]):
        hint = _hint(name, known, "`sojourn harm --help` lists them")
        raise OptionsError(f"{file}: {where}: no such option; {hint}")
    if not named and SAYS[name] == "who":
        variable = f"{_PREFIX}{name.replace('-', '_').upper()}"
        right = f"give --{name}, set {variable}, or name the file ({WHERE}={file})"
        raise OptionsError(f"{file}: {where}: {WHY['who']}; {right}")
    text = option_value(f"{file}: {where}", name, value)
    if not named and SAYS[name] == "content":
        return content(file, name, str(text))
    placed = str(file.parent / Path(str(text)).expanduser()) if is_path(name, text) and name != "scenario" else text
    return placed if isinstance(placed, bool) or SAYS[name] == "content" else FromFile(placed, file)


def _variable(name: str) -> str:
    return f"{_PREFIX}{name.replace('-', '_').upper()}"


def _flag(variable: str, text: str) -> bool:
    if text.lower() in _YES + _NO:
        return text.lower() in _YES
    raise OptionsError(f"{variable}={text}: give 1 or 0")


def _hint(word: str, known: Collection[str], otherwise: str) -> str:
    return did_you_mean(word, known) or otherwise
