# SPDX-License-Identifier: Apache-2.0
"""The tools that kernels, userlands, images and C programs are made with: run to their end, an error is one line."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from hardware.machine import cache
from hardware.machine.cache import BuildError
from hardware.machine.place import ENVIRONMENT

#: Longer than any step takes, on a slow machine beside other work, s.
_LONGEST_S = 7200
# Static: a guest has another libc, a root of a few files has none.
_COMPILE = ("gcc", "-static", "-O2", "-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes", "-D_GNU_SOURCE")
_APT_LINE = "apt-get install --no-install-recommends gcc libc6-dev"


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


def program_digest(sources: Path, defines: Sequence[str] = ()) -> str:
    """Name what a C program is made from: the files of a folder and the compiler. Raises BuildError without gcc."""
    if not shutil.which("gcc"):
        raise BuildError(f"not installed: gcc; as root: {_APT_LINE}")
    compiler = subprocess.run(["gcc", "-dumpfullversion", "-dumpmachine"], capture_output=True, check=False).stdout
    files = ((path.name, path.read_bytes()) for path in sorted(sources.glob("*.[ch]")))
    return cache.digest([*files, ("command", " ".join((*_COMPILE, *defines)).encode()), ("gcc", compiler)])


def ensure_program(name: str, sources: Path, defines: Sequence[str] = ()) -> Path:
    """The program `name` of a folder of C files, compiled now if the cache does not have it.

    Raises BuildError when it does not compile.
    """

    def build(scratch: Path) -> None:
        command = [*_COMPILE, *defines, "-o", str(scratch / name), *map(str, sorted(sources.glob("*.c")))]
        done = ended(command)
        if done.returncode:
            raise BuildError(f"{'/'.join(sources.parts[-2:])} does not compile: {done.stderr.strip()[-300:]}")

    return cache.build_once(cache.root() / name / program_digest(sources, defines), build) / name
