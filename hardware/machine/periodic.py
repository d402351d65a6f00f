# SPDX-License-Identifier: Apache-2.0
"""A command that stays open at a place and is queried periodically; its answers become JSON lines."""

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
    """A thread that samples at a fixed interval through one process that stays open at the place.

    A subclass defines the query and the written lines in `sample`. If the place dies, sampling ends and `error` says
    why; `samples` counts the rounds.
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
        """Stop sampling and the process. `error` then says whether sampling failed."""
        self._stop.set()
        if self._process is None:
            return
        self._thread.join(timeout=2)
        if self.error is not None:
            # The place may be dead: no signal would reach the far end, but the local end of the connection can be
            # closed.
            self._process.popen.kill()
        # A process that no longer answers ends here, and with it a thread that still waits for the answer.
        self._process.stop(signal.SIGTERM, grace=2)
        self._thread.join(timeout=2)

    def sample(self) -> Iterable[bytes]:
        """Query once and yield the lines to write."""
        raise NotImplementedError

    def ask(self, question: str, last: bytes) -> tuple[float, bytes]:
        """Send one line and read until the answer ends with `last`.

        Returns the Unix time midway between question and answer, and the answer.
        """
        assert self._process is not None
        stdin, stdout = self._process.popen.stdin, self._process.popen.stdout
        assert stdin is not None and stdout is not None
        sent, answer = time.time(), b""
        with suppress(OSError):  # a missing reader shows in the answer
            stdin.write(question.encode() + b"\n")
            stdin.flush()
        while not answer.endswith(last):
            # A router that hangs or loses power closes no connection: only its silence shows it.
            if not select.select([stdout], [], [], _SILENCE_S)[0]:
                raise ProcessError(
                    f"{self.place.name}: {self.command[0]} gave no answer for {_SILENCE_S:g} s", code="no-answer"
                )
            part = os.read(stdout.fileno(), 1 << 16)
            if not part:
                raise ProcessError(
                    f"{self.place.name}: {self.command[0]} stopped answering: "
                    + (self._process.log_tail() or "its connection ended"),
                    code="no-answer",
                )
            answer += part
        return (sent + time.time()) / 2, answer

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
        except Exception as failed:
            if not self._stop.is_set():
                self.error = failed
