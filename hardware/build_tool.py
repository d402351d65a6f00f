# SPDX-License-Identifier: Apache-2.0
"""The tools that userlands and images are made with: run to their end, their error told in a line."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

import psutil

from hardware.machine.cache import BuildError
from hardware.machine.place import ENVIRONMENT

#: Longer than any step takes, on a slow machine beside other work, s.
_LONGEST_S = 7200


def call(command: list[str]) -> str:
    """Run a tool without a terminal and in English, and return what it printed. Raises BuildError."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**ENVIRONMENT, "LC_ALL": "C.UTF-8"},
    ) as tool:  # fmt: skip
        try:
            out, err = tool.communicate(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired as hung:
            whole = psutil.Process(tool.pid)
            for process in (*whole.children(recursive=True), whole):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            raise BuildError(f"{Path(command[0]).name} has not ended within {_LONGEST_S:g} s") from hung
    if tool.returncode:
        errors = [line for line in err.splitlines() if line.startswith("E:")]
        raise BuildError(f"{Path(command[0]).name} failed: {(errors or [err.strip()[-300:]])[0]}")
    return out
