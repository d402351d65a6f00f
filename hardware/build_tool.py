# SPDX-License-Identifier: Apache-2.0
"""The tools that build kernels, userlands, images and C programs: run to completion; an error is one line."""

from __future__ import annotations

import contextvars
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.place import ENVIRONMENT
from sojourn.hardware.machine.subreaper import with_descendants

#: Longer than any step takes on a slow, busy machine, s.
_LONGEST_S = 7200
# Static: a guest has a different libc, and a root of a few files has none.
_COMPILE = ("gcc", "-static", "-O2", "-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes", "-D_GNU_SOURCE")
_APT_LINE = "apt-get install --no-install-recommends gcc libc6-dev"

TAKEN = "compiler"
"""File in the cache: the compiler of the builds that were taken from an archive (`sojourn build --from`)."""

T = TypeVar("T")


class Tools:
    """The tools of concurrent builders, one thread each, which can be stopped together."""

    def __init__(self) -> None:
        self._lock, self._running, self._ended = threading.Lock(), set[subprocess.Popen[Any]](), False

    def work(self, make: Callable[[], T]) -> T:
        """Return the result of `make`; the tools that this thread starts meanwhile belong to this group."""

        def ours() -> T:
            _TOOLS.set(self)
            return make()

        return contextvars.copy_context().run(ours)

    def end(self) -> None:
        """Stop the running tools; from now on, starting one raises BuildError."""
        with self._lock:
            self._ended = True
            for tool in self._running:
                tool.terminate()

    @contextmanager
    def holding(self, start: Callable[[], subprocess.Popen[Any]]) -> Iterator[subprocess.Popen[Any]]:
        """Start a tool that belongs to this group until the end of the block. Raises BuildError after `end`."""
        with self._lock:
            if self._ended:
                raise BuildError("another part of the set-up failed or was stopped")
            self._running.add(tool := start())
        try:
            with tool:
                yield tool
        finally:
            with self._lock:
                self._running.discard(tool)


_TOOLS = contextvars.ContextVar[Tools]("_TOOLS")


@contextmanager
def started(
    command: list[str],
    *,
    env: Mapping[str, str] = ENVIRONMENT,
    cwd: Path | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: IO[bytes] | int = subprocess.PIPE,
    stderr: IO[bytes] | int = subprocess.PIPE,
    text: bool = True,
) -> Iterator[subprocess.Popen[Any]]:
    """Start a tool without a terminal and in English. Its descendants end with it, with the block and with this
    process.

    Until then it also holds the cache locks that this process holds, whatever ends this process.

    Raises BuildError if the tool is missing, or was stopped with others before it began (`Tools.end`).
    """
    env = {**env, "LC_ALL": "C.UTF-8"}
    if not shutil.which(command[0], path=env.get("PATH")):
        raise BuildError(f"{command[0]} is not installed", code="missing-program")

    def start() -> subprocess.Popen[Any]:
        with cache.held_unchanged:
            return subprocess.Popen(
                with_descendants(command), cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, text=text, env=env,
                start_new_session=True, pass_fds=tuple(cache.held),
            )  # fmt: skip

    with (_TOOLS.get(None) or Tools()).holding(start) as tool:
        try:
            yield tool
        except BaseException:
            tool.terminate()
            raise


def ended(
    command: list[str],
    *,
    env: Mapping[str, str] = ENVIRONMENT,
    cwd: Path | None = None,
    log: IO[bytes] | None = None,
    longest_s: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a tool to completion, as `started` does, within `longest_s` (default: some hours).

    Its output goes to `log`, if given.

    Raises BuildError if the tool is missing or does not end.
    """
    said, longest_s = log or subprocess.PIPE, longest_s or _LONGEST_S
    try:
        with started(command, env=env, cwd=cwd, stdout=said, stderr=said) as tool:
            out, err = tool.communicate(timeout=longest_s)
    except subprocess.TimeoutExpired as hung:
        raise BuildError(f"{Path(command[0]).name} did not end within {longest_s:g} s", code="no-answer") from hung
    return subprocess.CompletedProcess(command, tool.returncode, out, err)


def call(command: list[str], *, env: Mapping[str, str] = ENVIRONMENT, cwd: Path | None = None) -> str:
    """Run a tool as `ended` does and return its output. Raises BuildError, also if it fails."""
    tool = ended(command, env=env, cwd=cwd)
    if tool.returncode:
        errors = [line for line in tool.stderr.splitlines() if line.startswith("E:")]
        raise BuildError(f"{Path(command[0]).name} failed: {(errors or [tool.stderr.strip()[-300:]])[0]}")
    return tool.stdout


def compiler() -> str:
    """Return version and target of this machine's compiler. Raises BuildError without gcc."""
    if not shutil.which("gcc"):
        raise BuildError(f"not installed: gcc; as root: {_APT_LINE}", code="missing-program")
    return subprocess.run(
        ["gcc", "-dumpfullversion", "-dumpmachine"], capture_output=True, text=True, check=False
    ).stdout


def digest_of_build(digest: Callable[[str], str]) -> str:
    """Return the digest of a build by its compiler: that of the archive it was taken from, or this machine's.

    Raises BuildError without gcc if no archive had it.
    """
    if (taken := cache.root() / TAKEN).is_file():
        name = digest(taken.read_text())
        if any(cache.root().glob(f"*/{name}")):
            return name
    return digest(compiler())


def program_digest(sources: Path, defines: Sequence[str] = ()) -> str:
    """Return the digest of a C program's sources (a folder) and the compiler. Raises BuildError without gcc."""
    files = [(path.name, path.read_bytes()) for path in sorted(sources.glob("*.[ch]"))]
    command = " ".join((*_COMPILE, *defines)).encode()
    return digest_of_build(lambda gcc: cache.digest([*files, ("command", command), ("gcc", gcc.encode())]))


def ensure_program(name: str, sources: Path, defines: Sequence[str] = ()) -> Path:
    """Return the program `name` from a folder of C files, compiled now if it is not in the cache.

    Raises BuildError if it does not compile.
    """

    def build(scratch: Path) -> None:
        command = [*_COMPILE, *defines, "-o", str(scratch / name), *map(str, sorted(sources.glob("*.c")))]
        done = ended(command)
        if done.returncode:
            raise BuildError(f"{'/'.join(sources.parts[-2:])} does not compile: {done.stderr.strip()[-300:]}")

    return cache.build_once(cache.root() / name / program_digest(sources, defines), build) / name
