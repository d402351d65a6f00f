# SPDX-License-Identifier: Apache-2.0
"""A command that stays open at a place and is asked again and again, its answers written as JSON lines."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import Process, ProcessError

_SILENCE_S = 5.0


class PeriodicSampler:
    """A thread that samples at a fixed pace through one process, which stays open at the place.

    A subclass says in `sample` what is asked and which lines are written. When the place dies,
    sampling ends and `error` says why; `samples` counts the rounds.
    """

    def __init__(self, place: Place, command: Sequence[str], output: Path, interval_s: float) -> None:
        self.place, self.command, self.output, self.interval_s = place, list(command), output, interval_s
        self.error: Exception | None = None
        self.samples = 0
        self._process: Process | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def start(self) -> Self:
        """Start the process and the thread. Raises `sojourn.hardware.machine.process.ProcessError`."""
        self._process = Process.start(self.place, self.command, stdin=True, stdout="pipe")
        self._thread.start()
        return self

    def stop(self) -> None:
        """End sampling and the process. `error` then says whether it went well to the end."""
        self._stop.set()
        if self._process is None:
            return
        self._thread.join(timeout=2)
        if self.error is not None:
            # The place may be dead: no signal would reach the far end, our own end of the connection can go.
            self._process.popen.kill()
        # A process that answers no more ends here, and with it a thread that still waits for the answer.
        self._process.stop(signal.SIGTERM, grace=2)
        self._thread.join(timeout=2)

    def sample(self) -> Iterable[bytes]:
        """Ask once and give the lines to write."""
        raise NotImplementedError

    def ask(self, question: str, last: bytes) -> tuple[float, bytes]:
        """Send one line and read until the answer ends with `last`.

        Returns the Unix time in the middle between question and answer, and the answer.
        """
        assert self._process is not None
        stdin, stdout = self._process.popen.stdin, self._process.popen.stdout
        assert stdin is not None and stdout is not None
        asked, answer = time.time(), b""
        with suppress(OSError):  # that nobody reads any more shows in the answer
            stdin.write(question.encode() + b"\n")
            stdin.flush()
        while not answer.endswith(last):
            # A router that hangs or loses its power closes nothing: silence is how it shows.
            if not select.select([stdout], [], [], _SILENCE_S)[0]:
                raise ProcessError(f"{self.place.name}: {self.command[0]} gave no answer for {_SILENCE_S:g} s")
            part = os.read(stdout.fileno(), 1 << 16)
            if not part:
                raise ProcessError(
                    f"{self.place.name}: {self.command[0]} stopped answering: "
                    + (self._process.log_tail() or "its connection ended")
                )
            answer += part
        return (asked + time.time()) / 2, answer

    def _run(self) -> None:
        due = time.monotonic()
        try:
            with self.output.open("wb") as out:
                while not self._stop.is_set():
                    out.writelines(self.sample())
                    out.flush()
                    self.samples += 1
                    due = max(due + self.interval_s, time.monotonic())
                    self._stop.wait(due - time.monotonic())
        except (OSError, ValueError, ProcessError) as failed:
            if not self._stop.is_set():
                self.error = failed
