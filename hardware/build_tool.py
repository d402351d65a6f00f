# SPDX-License-Identifier: Apache-2.0
"""The tools that userlands and images are made with: run to their end, their error told in a line."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hardware.machine.cache import BuildError
from hardware.machine.place import ENVIRONMENT

#: Longer than any step takes, on a slow machine beside other work, s.
_LONGEST_S = 7200


def call(command: list[str]) -> str:
    """Run a tool without a terminal and in English, and return what it printed. Raises BuildError."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            env={**ENVIRONMENT, "LC_ALL": "C.UTF-8"}, timeout=_LONGEST_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as hung:
        raise BuildError(f"{Path(command[0]).name} has not ended within {_LONGEST_S / 3600:g} h") from hung
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise BuildError(f"{Path(command[0]).name} failed: {(errors or [done.stderr.strip()[-300:]])[0]}")
    return done.stdout
