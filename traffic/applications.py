# SPDX-License-Identifier: Apache-2.0
"""Contenders other than bulk flows, as programs between client and server: a web user, a call, and a game."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import Process, ProcessError
from sojourn.traffic import call_traffic, ports, web
from sojourn.traffic.load import CALL, GAME, WEB

#: A call that is not stopped ends by itself a day after any timeline could.
_TALK_S = 8 * 86_400
_FAREWELL_S = 10.0
#: The number of the phase in the seed of a web user, which is RUN-PHASE-USER.
_PHASE = re.compile(r"-\d+(?=-\d+$)")


@dataclass(frozen=True)
class Ends:
    """Where an application runs: both hosts and their addresses."""

    client: Place
    server: Place
    client_address: str
    server_address: str


class Application(ABC):
    """A competing application. Order of calls: start, failure …, stop, record; stop is always safe."""

    contender: ClassVar[str]
    """Its name in a load."""

    def __init__(self, name: str) -> None:
        """`name` is unique in the run; it is reported if the application ends during the run."""
        self.name = name
        self._stack = ExitStack()
        self._start_s = self._end_s = 0.0

    def start(self) -> None:
        """Return when it competes. Raises ProcessError, or what else its parts raise."""
        with ExitStack() as stack:
            self.begin(stack)
            self._stack = stack.pop_all()
        self._start_s = time.time()

    @abstractmethod
    def begin(self, stack: ExitStack) -> None:
        """Start all its parts; `stack` receives the calls that stop them."""

    @property
    @abstractmethod
    def failure(self) -> str | None:
        """Why it no longer competes; None while it does."""

    def stop(self) -> None:
        """Stop all its parts, last first."""
        self._stack.close()
        self._end_s = time.time()

    @abstractmethod
    def result_record(self) -> dict[str, Any]:
        """Its results when it has ended, serialisable as JSON."""

    def record(self, phase: str) -> dict[str, Any]:
        """Return its entry in bulk.json."""
        span = {"start": self._start_s, "end": self._end_s}
        return {"contender": self.contender, "phase": phase, **span, **self.result_record()}


class Programs(Application):
    """An application made of Sojourn's programs."""

    def __init__(self, ends: Ends, folder: Path, name: str) -> None:
        """`folder` receives the programs' output, in files named after `name`."""
        super().__init__(name)
        self._ends, self._files = ends, folder / name
        self._running: dict[str, Process] = {}

    def _run(self, name: str, place: Place, module: ModuleType, *arguments: str, ready: str | None = None) -> Process:
        """Start `module` as a program at `place`; a remote host's Python gets nothing but this module."""
        source = Path(str(module.__file__))
        program = ["python3", "-c", source.read_text()] if place.remote else [sys.executable, "-P", str(source)]
        process = Process.start(place, [*program, *arguments], stdout=self._file(name), ready=ready)
        self._running[name] = process
        return process

    def _file(self, name: str) -> Path:
        """Return the file with the output of the program `name`."""
        return self._files.with_name(f"{self._files.name}-{name}.jsonl")

    @property
    def failure(self) -> str | None:
        gone = (f"{name}: {it.log_tail() or 'no output'}" for name, it in self._running.items() if not it.alive())
        return next(gone, None)

    def _lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._file(name).read_text().splitlines()]


class WebUser(Programs):
    """One user, who fetches from their own server by `sojourn.traffic.web`; the seed determines times and sizes.

    They are the same in every phase of a run, so that phases compare the same downloads.
    """

    contender = WEB

    def __init__(self, ends: Ends, folder: Path, name: str, *, number: int, seed: str) -> None:
        """`number` counts the users of a load, from 0; `seed` is RUN-PHASE-USER, of which the phase is ignored."""
        super().__init__(ends, folder, name)
        self._port, self._draw = ports.SHORT + number, _PHASE.sub("", seed)

    def begin(self, stack: ExitStack) -> None:
        ends, at = self._ends, (self._ends.server_address, str(self._port))
        stack.callback(self._run("serve", ends.server, web, "serve", *at, ready="listening").stop, signal.SIGTERM)
        stack.callback(self._run("fetch", ends.client, web, "fetch", *at, f"--seed={self._draw}").stop)

    def result_record(self) -> dict[str, Any]:
        return {
            "sender": self._ends.server_address, "sender_port": self._port, "receiver": self._ends.client_address,
            "draw": self._draw, "fetches": self._lines("fetch"),
        }  # fmt: skip


class CallPrograms(Programs):
    """A talk in each direction by `sojourn.traffic.call_traffic`, like a call that never adapts its rate."""

    contender = CALL

    def begin(self, stack: ExitStack) -> None:
        ends = self._ends
        ways = {
            "down": (ends.server, ends.client, ends.client_address, str(ports.TALK)),
            "up": (ends.client, ends.server, ends.server_address, str(ports.TALK + 1)),
        }
        for way, (_, listener, *to) in ways.items():
            stack.callback(_let_end, self._run(f"hear-{way}", listener, call_traffic, "listen", *to, ready="listening"))
        for way, (talker, _, *to) in ways.items():
            stack.callback(self._run(f"talk-{way}", talker, call_traffic, "talk", *to, f"--seconds={_TALK_S}").stop)

    def result_record(self) -> dict[str, Any]:
        return {
            "sender": self._ends.server_address, "receiver": self._ends.client_address, "receiver_port": ports.TALK,
            "heard": {way: self._received(way) for way in ("down", "up")},
        }  # fmt: skip

    def _received(self, way: str) -> dict[str, Any]:
        """The summary of what was received; without delays if the two ends have different clocks."""
        remote = self._ends.server.remote or self._ends.client.remote
        heard = next(iter(self._lines(f"hear-{way}")), {})
        summary: dict[str, Any] = heard.get("summary", {})
        return {name: value for name, value in summary.items() if not (remote and name.startswith("delay"))}


class GamePrograms(Programs):
    """An online game by `sojourn.traffic.game`: its player at the client, its server at the server."""

    contender = GAME

    def __init__(self, ends: Ends, folder: Path, name: str, *, port: int, seed: str, dscp: int = 0) -> None:
        """`port` is the server's; `seed` decides sizes and when in a tick's interval each end sends."""
        super().__init__(ends, folder, name)
        self._port, self._options = port, (f"--seed={seed}", f"--dscp={dscp}")

    def begin(self, stack: ExitStack) -> None:
        # Loaded here, so that the start of all other runs reads the same files at the same simulated times.
        from sojourn.traffic import game

        stack.callback(self._end)
        at = self._ends.server_address, str(self._port), *self._options
        self._run("server", self._ends.server, game, "serve", *at, ready="listening")
        self._run("client", self._ends.client, game, "play", *at, ready="playing")

    def _end(self) -> None:
        """Let both ends receive what is under way, at the same time."""
        for process in self._running.values():
            if process.alive():
                process.send(signal.SIGINT)
        for process in self._running.values():
            process.stop()

    def result_record(self) -> dict[str, Any]:
        return {
            "sender": self._ends.server_address, "sender_port": self._port, "receiver": self._ends.client_address,
            "packets": {end: self._lines(end) for end in ("client", "server")},
        }  # fmt: skip


def _let_end(listener: Process) -> None:
    """Wait until it ends, which it does after its talker's farewell or silence."""
    with suppress(ProcessError):
        listener.wait(_FAREWELL_S)
    listener.stop(signal.SIGTERM)
