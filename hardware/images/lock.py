# SPDX-License-Identifier: Apache-2.0
"""Parts of the lock: what some distributions need, with versions and hashes.

harness/setup.sh runs this file before there is an environment, so it imports only the standard library:

    python3 -I -B hardware/images/lock.py pyproject.toml requirements.txt runtime EXTRA…
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def locked_lines(names: Iterable[str], lock: str) -> str:
    """Return the lines of these distributions and of all that they need, from a lock with hashes and requirers.

    The lock is what `uv pip compile` writes: below every pin, a comment names the distributions that need it.
    Raises LookupError with the names that are not in the lock.
    """
    pins, needs = _pins(lock)
    wanted, seen = [_normal(name) for name in names], set[str]()
    while wanted:
        if (name := wanted.pop()) not in seen:
            seen.add(name)
            wanted += needs.get(name, ())
    if missing := sorted(seen - pins.keys()):
        raise LookupError(", ".join(missing))
    return "".join(pins[name] for name in sorted(seen))


def required(project: str, groups: Iterable[str]) -> list[str]:
    """Return the names of what a pyproject.toml requires for `groups`: names of extras, or `runtime`.

    Raises LookupError with the name of a group that it does not have.
    """
    table: Mapping[str, Any] = tomllib.loads(project)["project"]
    known: dict[str, list[str]] = {**table["optional-dependencies"], "runtime": table["dependencies"]}
    return [re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for group in groups for requirement in known[group]]


def _pins(lock: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the lines of every distribution in a lock, without comments, and the distributions that each one needs."""
    pins, needs = dict[str, str](), dict[str, list[str]]()
    for block in re.split(r"(?m)^(?=[^\s#])", lock):
        if not (match := re.match(r"([\w.-]+)(?:\[[^\]]*\])?==", block)):
            continue
        name = _normal(match[1])
        pins[name] = pins.get(name, "") + "".join(re.findall(r"(?m)^(?!\s*#).*\n", block))
        for requirer in re.findall(r"(?m)^\s+#(?:\s+via)?\s+([\w.-]+)", block):
            if requirer != "via":
                needs.setdefault(_normal(requirer), []).append(name)
    return pins, needs


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    project, lock, *groups = sys.argv[1:]
    sys.stdout.write(locked_lines(required(Path(project).read_text(), groups), Path(lock).read_text()))
