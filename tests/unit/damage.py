# SPDX-License-Identifier: Apache-2.0
"""Ways to damage a file, drawn by hypothesis; SOJOURN_FUZZ sets how many a test draws."""

from __future__ import annotations

import copy
import json
import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("SOJOURN_FUZZ", "150"))
fuzz = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-2, 2), st.floats(), st.text(max_size=8),
    st.just([]), st.just({}),
)  # fmt: skip
EDIT = st.tuples(st.integers(0, 2**20), st.integers(0, 3), st.binary(min_size=1, max_size=6))


def damaged(content: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """Bytes replaced, put in, taken out, or all that follows cut off."""
    for where, how, what in edits:
        at = where % (len(content) + 1)
        ends = (content[at + len(what) :], content[at:], content[at + 8 * len(what) :], b"")
        content = content[:at] + (what if how < 2 else b"") + ends[how]
    return content


def altered(value: Any, where: list[int], to: Any) -> Any:
    """A JSON value with one of its parts, found by the numbers in `where`, replaced by `to`, or taken away by `...`."""
    value = copy.deepcopy(value)
    part, last = value, None
    for number in where:
        if not isinstance(part, dict | list) or not part:
            break
        keys = list(part) if isinstance(part, dict) else range(len(part))
        last, part = (part, keys[number % len(keys)]), part[keys[number % len(keys)]]
    if last is None:
        return to
    holder, key = last
    if to is ...:
        del holder[key]
    else:
        holder[key] = to
    return value


def assigned(toml: str, which: int, to: Any) -> str:
    """TOML with the value of one of its assignments replaced, or the line taken away by `...`."""
    lines = toml.splitlines()
    at = [n for n, line in enumerate(lines) if " = " in line and not line.startswith("#")]
    line = at[which % len(at)]
    key = lines[line].partition(" = ")[0]
    lines[line] = "" if to is ... else f"{key} = {json.dumps(to)}"
    return "\n".join(lines) + "\n"


PART = st.lists(st.integers(0, 400), min_size=1, max_size=5)
TO = st.one_of(SCALARS, st.just(...))
EDITS = st.lists(EDIT, min_size=1, max_size=3)
