# SPDX-License-Identifier: Apache-2.0
"""Names and values of options, as pages and terminals show them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

from sojourn.hardware.machine.messages import printable
from sojourn.harness.options.model import OPTIONS

_NAMES = {option.field: option.name for option in OPTIONS} | {
    "rate_steps": "steps of the rate",
    "rate_up_steps": "steps of the rate-up",
    "call_speech": "speech in place of tones",
}
#: Units of a number, by the end of its field's name: name and size, the largest first.
_UNITS = {
    "_bps": (("Gbit/s", 10**9), ("Mbit/s", 10**6), ("kbit/s", 10**3), ("bit/s", 1)),
    "_us": (("s", 10**6), ("ms", 10**3), ("µs", 1)),
}


def option_words(field: str, value: Any) -> tuple[str, str]:
    """Return an option's name, as on the command line, and its value with its unit; `field` is its name in a record."""
    return _NAMES.get(field) or re.sub("_(bps|us)$", "", field), printable(_words(field, value))


def _words(field: str, value: Any) -> str:
    """Return a value in words; one from somebody else's run may have any form, and is then shown as it is."""
    if value is None or value == "":
        return "–"
    if isinstance(value, list):
        with suppress(TypeError, ValueError, LookupError):
            return _LISTS[field](value)
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    for suffix, units in _UNITS.items():
        if field.endswith(suffix) and isinstance(number, int):
            exact = (text for unit in units if (text := _exactly(number, *unit)))
            return next(exact, f"{number} {units[-1][0]}")
    if isinstance(value, float) and field.endswith("_s"):
        return f"{value:g} s"
    if isinstance(value, float) and field.endswith("_percent"):
        return f"{value:g}%"
    return str(value)


def _exactly(number: int, unit: str, size: int) -> str:
    """Return a number in a unit; empty if it is smaller than one, or is rounded."""
    text = f"{number / size:g}"
    return f"{text} {unit}" if number >= size and float(text) * size == number else ""


def _steps(steps: list[dict[str, Any]]) -> str:
    return ", ".join(f"{_words('rate_bps', step['rate_bps'])} from {step['at_s']:g} s on" for step in steps) or "none"


def _ladder(rungs: list[tuple[int, int]]) -> str:
    return ", ".join(f"{height}p at {_words('_bps', bps)}" for height, bps in rungs) or "default"


def _bursts(times: list[int]) -> str:
    return " to ".join(_words("_us", us) for us in dict.fromkeys(times))


def _programs(programs: list[dict[str, Any]]) -> str:
    """Return every program's name with 8 digits of the SHA-256 of its record; titles in docs/runs have them."""
    digests = (sha256(json.dumps(it, sort_keys=True).encode()).hexdigest() for it in programs)
    return ", ".join(f"{it['name']} {digest[:8]}" for it, digest in zip(programs, digests, strict=True))


_LISTS: Mapping[str, Callable[[list[Any]], str]] = {
    "rate_steps": _steps,
    "rate_up_steps": _steps,
    "ladder": _ladder,
    "bursts_us": _bursts,
    "programs": _programs,
}
