# SPDX-License-Identifier: Apache-2.0
"""A long-running program at a place: started, awaited until ready, signalled by its pid, reaped."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Literal

import psutil

from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.orphans import mark
from sojourn.hardware.machine.place import COMMANDS, ENVIRONMENT, CommandError, Place
from sojourn.hardware.machine.scratch import scratch_file

_POLL_S = 0.01
# A remote shell prints its pid before exec, so that a second ssh call can send a signal.
_REMOTE_PID = re.compile(r"^sojourn-pid (\d+)$", re.MULTILINE)


class ProcessError(CodedError):
    """A program died early, was not ready in time, or could not be started; the end of its log is in the text."""


class Process:
    """A concurrently running program. Create one with `start`."""

    def __init__(
        self,
        place: Place,
        command: Sequence[str],
        popen: subprocess.Popen[bytes],
        stdout: Path | None,
        stderr: Path,
    ) -> None:
        self.place, self.command, self.popen = place, list(command), popen
        self.stdout_path, self.stderr_path = stdout, stderr
        self._temporary = False

    @classmethod
    def start(
        cls,
        place: Place,
        command: Sequence[str],
        *,
        stdout: Path | Literal["pipe"] | None = None,
        stderr: Path | None = None,
        stdin: bool = False,
        ready: str | None = None,
        ready_in: Literal["stdout", "stderr"] = "stderr",
        timeout: float = 15,
        wrap: Sequence[str] = (),
        pass_fds: Sequence[int] = (),
    ) -> Process:
        """Start `command` at `place` and return once it is ready.

        `stdout`/`stderr` are files that it writes (`"pipe"`: read `process.popen.stdout` yourself; None: a temporary
        file for stderr, nothing for stdout). `ready` is a regular expression that is awaited in the file `ready_in` for
        `timeout` s. `wrap` precedes everything, including the place's prefix (`chrt -r 20` must come before entering a
        user namespace). `pass_fds` stay open in the program.

        Raises `ProcessError` if it cannot be started, ends before it is ready, or times out.
        """
        errors = stderr or scratch_file(".stderr")
        if place.remote:
            remote = f"echo sojourn-pid $$ >&2; export {mark()}; exec {shlex.join(command)}"
            argv = [*wrap, *place.prefix, remote]
        else:
            argv = [*wrap, *place.argv(command)]
        out: IO[bytes] | int = subprocess.DEVNULL
        if stdout == "pipe":
            out = subprocess.PIPE
        elif stdout is not None:
            out = stdout.open("wb")
        try:
            with errors.open("wb") as err:
                popen = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=ENVIRONMENT,
                    pass_fds=pass_fds,
                    # Ctrl-C reaches only this process, which stops every program in order.
                    start_new_session=True,
                )
        except OSError as missing:
            raise ProcessError(f"{place.name}: {shlex.join(command)}: {missing}", code="missing-program") from missing
        finally:
            if not isinstance(out, int):
                out.close()
        COMMANDS.info("[%s] & %s", place.name, shlex.join(command))
        process = cls(place, command, popen, stdout if isinstance(stdout, Path) else None, errors)
        process._temporary = stderr is None
        if ready is not None:
            try:
                process.await_ready(ready, ready_in, timeout)
            except BaseException:  # also a signal: nobody else knows the program
                process.stop(signal.SIGKILL)
                raise
        return process

    def await_ready(self, ready: str, ready_in: str = "stderr", timeout: float = 15) -> None:
        """Return once the regex `ready` matches in the file `ready_in`; raises as `start` does."""
        path = self.stdout_path if ready_in == "stdout" else self.stderr_path
        if path is None:
            raise ValueError("ready_in='stdout' needs stdout to be a file")
        pattern, deadline = re.compile(ready, re.MULTILINE), time.monotonic() + timeout
        while True:
            ended = self.popen.poll() is not None
            if pattern.search(path.read_text(errors="replace")):
                return
            if ended or time.monotonic() > deadline:
                what = f"ended with exit code {self.popen.returncode} before it was ready" if ended else ""
                failure = self._failure(what or f"was not ready within {timeout:g} s")
                self.stop(signal.SIGKILL)
                raise ProcessError(failure, code="not-started" if ended else "no-answer")
            time.sleep(_POLL_S)

    def _failure(self, what: str) -> str:
        tail = self.log_tail()
        return f"{self.place.name}: {shlex.join(self.command)} {what}" + (f": {tail}" if tail else "")

    def log_tail(self, lines: int = 5) -> str:
        """Return the last lines that the program wrote to its log, on one line."""
        said = [path.read_bytes() for path in (self.stdout_path, self.stderr_path) if path and path.exists()]
        texts = [data.decode(errors="replace") for data in said if b"\0" not in data]  # a capture is not text
        kept = [ln for text in texts for ln in text.splitlines() if ln.strip() and not _REMOTE_PID.match(ln)]
        return " | ".join(kept[-lines:])

    def alive(self) -> bool:
        """Whether the program still runs."""
        return self.popen.poll() is None

    def last_words(self) -> str | None:
        """Its last output, if it has ended; None while it runs."""
        return None if self.alive() else self.log_tail() or "no output"

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code; raises `ProcessError` after `timeout` seconds."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired as late:
            raise ProcessError(self._failure(f"still runs after {timeout:g} s"), code="not-ended") from late

    def send(self, sig: int) -> None:
        """Send `sig` to the program itself, through nsenter and ssh."""
        if self.place.remote:
            pid = _REMOTE_PID.search(self.stderr_path.read_text(errors="replace"))
            if pid:
                with contextlib.suppress(CommandError):
                    self.place.run(["kill", f"-{signal.Signals(sig).name[3:]}", pid[1]], timeout=5)
                return
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            os.kill(self._real_pid(), sig)

    def _real_pid(self) -> int:
        """nsenter forks when it enters a pid namespace and forwards no signals: its child is the program."""
        if "nsenter" in self.place.prefix:
            outer = psutil.Process(self.popen.pid)
            while outer.name() in ("nsenter", "chrt") and (inner := outer.children()):
                outer = inner[0]
            return outer.pid
        return self.popen.pid

    def stop(self, sig: int = signal.SIGINT, grace: float = 10) -> int:
        """Signal the program, wait `grace` seconds, kill it if it still runs; return the exit code."""
        if self.alive():
            self.send(sig)
            try:
                self.popen.wait(grace)
            except subprocess.TimeoutExpired:
                self.send(signal.SIGKILL)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.popen.pid, signal.SIGKILL)
        code = self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        if self._temporary and self.stderr_path.exists():
            COMMANDS.info("[%s] ended %s (%s): %s", self.place.name, self.command[0], code, self.log_tail())
            self.stderr_path.unlink()
        return code

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
