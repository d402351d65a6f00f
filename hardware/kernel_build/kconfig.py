# SPDX-License-Identifier: Apache-2.0
"""Kernel configuration fragments: reading them, and checking a finished .config against them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from sojourn.hardware.machine.cache import BuildError

FRAGMENTS = Path(__file__).parents[1] / "kernel"
ROUTER = ("base", "qdiscs", "tcp", "tunnels")
"""Fragments of any router or traffic host."""
VIRTUAL = ("uml", *ROUTER)
"""Fragments of a User-Mode Linux node."""
RENAMED = {"CONFIG_PROC_SYSCTL": "CONFIG_SYSCTL"}
"""Options of the fragments → their names in newer sources, since 7.3."""


def parse(text: str) -> dict[str, str]:
    """Options and their values; `# CONFIG_X is not set` is `n`. Raises BuildError for any other line."""
    options = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"(CONFIG_\w+)=(.+)|# (CONFIG_\w+) is not set", line.strip()):
            options[match[1] or match[3]] = match[2] or "n"
        elif line.strip() and not line.startswith("#"):
            raise BuildError(
                f"kernel configuration: cannot parse {line!r}; expected CONFIG_NAME=value", code="invalid-value"
            )
    return options


def fragment(names: Iterable[str]) -> str:
    """Return the concatenated text of the named fragments, then the newer names of renamed options."""
    text = "".join((FRAGMENTS / f"{name}.config").read_text() for name in names)
    options = parse(text)
    return text + "".join(f"{new}={options[old]}\n" for old, new in RENAMED.items() if old in options)


def unmet(wanted: dict[str, str], got: dict[str, str]) -> list[str]:
    """Return the requested options that are not set, as `CONFIG_X=y (is n)`.

    An absent option counts as n, a renamed option by its newer name.
    """
    known = {old: got[new] for old, new in RENAMED.items() if new in got} | got
    return [
        f"{option}={value} (is {known.get(option, 'n')})"
        for option, value in wanted.items()
        if known.get(option, "n") != value
    ]
