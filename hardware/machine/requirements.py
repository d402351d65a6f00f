# SPDX-License-Identifier: Apache-2.0
"""Check that a measurement tool is installed and new enough, before anything starts."""

from __future__ import annotations

import re

from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.place import CommandError, Place


class ToolError(CodedError):
    """A tool is missing, too old or without a required feature; the message has the fix."""


def version(place: Place, command: list[str], pattern: str, package: str) -> tuple[int, ...]:
    """Return the version that `command` prints (`pattern`'s first group). Raises `ToolError`."""
    try:
        text = place.run(command)
    except CommandError as failed:
        raise ToolError(
            f"{place.name}: {command[0]} does not run ({failed.stderr.strip()}); install {package}",
            code="missing-program",
        ) from failed
    match = re.search(pattern, text)
    if match is None:
        raise ToolError(
            f"{place.name}: {' '.join(command)} printed no version; install {package}", code="missing-program"
        )
    return tuple(int(part) for part in re.findall(r"\d+", match[1]))


def at_least(place: Place, tool: str, have: tuple[int, ...], need: tuple[int, ...], why: str) -> None:
    """Raise `ToolError` if `have` is older than `need`."""
    if have < need:
        dotted = [".".join(map(str, v)) for v in (have, need)]
        raise ToolError(
            f"{place.name}: {tool} {dotted[0]} is too old; {dotted[1]} or newer is required: {why}", code="too-old"
        )
