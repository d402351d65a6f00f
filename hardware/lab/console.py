# SPDX-License-Identifier: Apache-2.0
"""Serial consoles of a lab's machines: a command of this host, or a labgrid target; recorded in a log."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from pathlib import Path
from typing import Protocol, Self

from sojourn.hardware.lab.lab_file import MachineEntry
from sojourn.hardware.lab.labgrid_target import ONE_AT_A_TIME, LabgridError, LabgridTarget
from sojourn.hardware.machine.place import LOCAL
from sojourn.hardware.machine.process import Process, ProcessError

_POLL_S = 0.1
#: What a console has said before its log is stopped is read for this long, s.
_LAST_S = 1.0
_LABGRID_CHUNK, _LABGRID_READ_S = 1 << 16, 0.01


class ConsoleError(RuntimeError):
    """A console cannot be opened or has ended; one line with the reason."""


class Console(Protocol):
    """An open serial console."""

    def read(self) -> bytes:
        """Return the data since the last call, after a short wait. Raises `ConsoleError`."""

    def write(self, data: bytes) -> None:
        """Send `data`. Raises `ConsoleError`."""

    def close(self) -> None:
        """Close it; safe to call twice."""


class CommandConsole:
    """A program whose stdin and stdout are the console, e.g. `socat - /dev/ttyUSB0,b115200,raw,echo=0`."""

    def __init__(self, command: list[str]) -> None:
        try:
            self._process = Process.start(LOCAL, command, stdin=True, stdout="pipe")
        except ProcessError as failed:
            raise ConsoleError(str(failed)) from failed

    def read(self) -> bytes:
        stdout = self._process.popen.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], _POLL_S)[0]:
            return b""
        if data := os.read(stdout.fileno(), 1 << 16):
            return data
        self._process.popen.wait()
        raise ConsoleError(f"{self._process.command[0]} has ended: {self._process.log_tail() or 'no output'}")

    def write(self, data: bytes) -> None:
        assert self._process.popen.stdin is not None
        try:
            self._process.popen.stdin.write(data)
            self._process.popen.stdin.flush()
        except OSError as failed:
            raise ConsoleError(f"{self._process.command[0]}: {failed.strerror}") from failed

    def close(self) -> None:
        self._process.stop(signal.SIGTERM, grace=2)


class LabgridConsole:
    """A console that labgrid reaches by a driver with its ConsoleProtocol. Raises `LabgridError`."""

    def __init__(self, target: LabgridTarget) -> None:
        self._target, self._driver = target, target.driver("ConsoleProtocol")

    def read(self) -> bytes:
        import pexpect  # type: ignore[import-untyped, import-not-found, unused-ignore]

        try:
            with ONE_AT_A_TIME:
                data = bytes(self._driver.read(size=_LABGRID_CHUNK, timeout=_LABGRID_READ_S) or b"")
        except pexpect.TIMEOUT:
            data = b""
        except Exception as failed:
            raise ConsoleError(f"labgrid: {failed}") from failed
        if not data:
            time.sleep(_POLL_S)
        return data

    def write(self, data: bytes) -> None:
        try:
            with ONE_AT_A_TIME:
                self._driver.write(data)
        except Exception as failed:
            raise ConsoleError(f"labgrid: {failed}") from failed

    def close(self) -> None:
        self._target.close()


def open_console(machine: MachineEntry) -> Console | None:
    """Open the console of a machine; None if the lab file defines none. Raises `ConsoleError`."""
    if machine.serial:
        return CommandConsole(machine.serial)
    if not machine.labgrid:
        return None
    target = None
    try:
        target = LabgridTarget(machine.labgrid)
        return LabgridConsole(target)
    except LabgridError as failed:
        if target:
            target.close()
        raise ConsoleError(str(failed)) from failed


def answer(console: Console, seconds: float = 5) -> bytes:
    """Send a return and return the console's answer within `seconds`, up to a pause; empty if there is none.

    Raises `ConsoleError`.
    """
    console.write(b"\n")
    said, deadline = b"", time.monotonic() + seconds
    while time.monotonic() < deadline:
        part = console.read()
        if said and not part:
            break
        said += part
    return said


class ConsoleLog:
    """A thread that writes a console's output to a file until it is stopped; `error` says why it ended."""

    def __init__(self, console: Console, file: Path) -> None:
        self.error: ConsoleError | None = None
        self._console, self._file, self._stop = console, file, threading.Event()
        self._thread = threading.Thread(target=self._run, name="ConsoleLog", daemon=True)

    def start(self) -> Self:
        self._file.touch()
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._console.close()

    def _run(self) -> None:
        try:
            with self._file.open("ab", buffering=0) as out:
                while not self._stop.is_set():
                    out.write(self._console.read())
                deadline = time.monotonic() + _LAST_S
                while time.monotonic() < deadline and (last := self._console.read()):
                    out.write(last)
        except ConsoleError as failed:
            self.error = failed
