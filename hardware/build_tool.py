# SPDX-License-Identifier: Apache-2.0
"""The tools that kernels, userlands and images are made with: run to their end, their error told in a line."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from hardware.machine.cache import BuildError
from hardware.machine.place import ENVIRONMENT

#: Longer than any step takes, on a slow machine beside other work, s.
_LONGEST_S = 7200


def ended(
    command: list[str],
    *,
    env: Mapping[str, str] = ENVIRONMENT,
    cwd: Path | None = None,
    log: IO[bytes] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a tool without a terminal and in English to its end, within some hours; what it says goes to `log`, if any.

    Raises BuildError when it is not there, or does not end.
    """
    said = log or subprocess.PIPE
    try:
        tool = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=said, stderr=said, text=True,
            env={**env, "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
    except FileNotFoundError as missing:
        raise BuildError(f"{command[0]} is not installed") from missing
    with tool:
        try:
            out, err = tool.communicate(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired as hung:
            whole = psutil.Process(tool.pid)
            for process in (*whole.children(recursive=True), whole):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            raise BuildError(f"{Path(command[0]).name} has not ended within {_LONGEST_S:g} s") from hung
        except BaseException:
            tool.kill()
            raise
    return subprocess.CompletedProcess(command, tool.returncode, out, err)


def call(command: list[str], *, env: Mapping[str, str] = ENVIRONMENT, cwd: Path | None = None) -> str:
    """Run a tool as `ended` does and return what it printed. Raises BuildError, also when it fails."""
    tool = ended(command, env=env, cwd=cwd)
    if tool.returncode:
        errors = [line for line in tool.stderr.splitlines() if line.startswith("E:")]
        raise BuildError(f"{Path(command[0]).name} failed: {(errors or [tool.stderr.strip()[-300:]])[0]}")
    return tool.stdout
