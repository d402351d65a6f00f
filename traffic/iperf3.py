# SPDX-License-Identifier: Apache-2.0
"""Bulk flows: one iperf3 transfer from a sender to a receiver with a contender's congestion control."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from pathlib import Path
from typing import Any

from sojourn.hardware.machine import requirements
from sojourn.hardware.machine.place import CommandError, Place
from sojourn.hardware.machine.process import Process, ProcessError
from sojourn.traffic import ports
from sojourn.traffic.contender import Contender

_POLL_S = 0.02
_CONNECT_S = 10.0
# iperf3 prints this when stopped by SIGINT; its JSON is then complete.
_INTERRUPTED = "interrupt"


class BulkError(RuntimeError):
    """A bulk flow could not start or ended by itself; the message has iperf3's reason."""


class BulkFlow:
    """One TCP flow. `directory` receives iperf3's JSON and logs, named after `name`; `up`: away from the client."""

    def __init__(
        self,
        sender: Place,
        receiver: Place,
        receiver_address: str,
        contender: Contender,
        directory: Path,
        *,
        port: int = ports.BULK,
        sender_port: int = ports.FIRST_SENDER,
        name: str = "",
        up: bool = False,
    ) -> None:
        self.up = up
        self.sender, self.receiver, self.receiver_address = sender, receiver, receiver_address
        self.contender, self.port, self.sender_port = contender, port, sender_port
        stem = directory / f"iperf3-{name or contender.name}-{sender_port}"
        self._json, self._log = stem.with_suffix(".json"), stem.with_suffix(".server.log")
        self._server: Process | None = None
        self._client: Process | None = None
        self.sender_address = ""
        self.start_s = self.end_s = 0.0

    def start(self, duration_s: float = 3600) -> None:
        """Set both ends' ECN mode, start server and client, and return when data flows.

        `duration_s` is an upper bound in s; `stop` ends the flow. Raises `BulkError`,
        `sojourn.traffic.contender.ContenderError` and `sojourn.hardware.machine.process.ProcessError`.
        """
        self.launch(duration_s)
        self.await_data()

    def launch(self, duration_s: float = 3600) -> None:
        """Like `start`, without waiting: until `await_data` returns, do not change the ECN mode of either end."""
        self.contender.prepare(self.sender, self.receiver)
        self._server = Process.start(
            self.receiver,
            ["iperf3", "-s", "-1", "-p", str(self.port), "--forceflush"],
            stdout=self._log,
            ready=r"Server listening on",
            ready_in="stdout",
        )
        try:
            command = ["iperf3", "-c", self.receiver_address, "-p", str(self.port), "-C", self.contender.cc]
            command += ["-t", f"{max(1, round(duration_s))}", "--cport", str(self.sender_port), "-J", "-i", "0.25"]
            self.start_s = time.time()
            self._client = Process.start(self.sender, command, stdout=self._json)
        except BaseException:
            self._end()
            raise

    def await_data(self) -> None:
        """Return when data flows. Raises `BulkError`, after which the flow is over."""
        try:
            self._await_connection()
        except BaseException:
            self._end()
            raise

    def _await_connection(self) -> None:
        assert self._client is not None
        query = ["ss", "-Htn", "state", "established", "sport", "=", f":{self.sender_port}"]
        deadline = time.monotonic() + _CONNECT_S
        while not (line := self.sender.run(query).split()):
            if not self._client.alive():
                self._client.stop()
                raise BulkError(f"{self.sender.name}: iperf3: {self._reason() or self._client.log_tail()}")
            if time.monotonic() > deadline:
                raise BulkError(
                    f"{self.sender.name}: no connection to {self.receiver_address}:{self.port} within {_CONNECT_S:g} s"
                )
            time.sleep(_POLL_S)
        self.sender_address = line[2].rpartition(":")[0].strip("[]")

    def alive(self) -> bool:
        """Whether the flow still runs."""
        return self._client is not None and self._client.alive()

    @property
    def failure(self) -> str | None:
        """Why it has ended, with iperf3's reason if it gave one; None while it runs."""
        return None if self.alive() else self._reason() or "iperf3 has ended"

    def stop(self) -> dict[str, Any]:
        """Stop the flow and return iperf3's JSON. Raises `BulkError` if the flow had already ended with an error."""
        self._end()
        self.end_s = time.time()
        try:
            result: dict[str, Any] = json.loads(self._json.read_text())
        except (OSError, ValueError) as broken:
            raise BulkError(f"{self.sender.name}: iperf3 wrote no JSON to {self._json}: {broken}") from broken
        if (reason := result.get("error", "")) and _INTERRUPTED not in reason:
            raise BulkError(f"{self.sender.name}: iperf3: {reason}")
        return result

    def record(self, phase: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return the flow's entry in bulk.json; `result` is what `stop` returned."""
        return {
            "contender": self.contender.name,
            "phase": phase,
            "up": self.up,
            "start": self.start_s,
            "end": self.end_s,
            "sender": self.sender_address,
            "sender_port": self.sender_port,
            "receiver": self.receiver_address,
            "receiver_port": self.port,
            "iperf3": result,
        }

    def _end(self) -> None:
        if self._client is not None:
            self._client.stop(signal.SIGINT, grace=10)
        if self._server is not None:
            # One-off: it ends by itself after a complete test, and must not outlive a broken one.
            with contextlib.suppress(ProcessError):
                self._server.wait(timeout=1)
            self._server.stop(signal.SIGTERM, grace=3)

    def _reason(self) -> str:
        try:
            return str(json.loads(self._json.read_text()).get("error", ""))
        except (OSError, ValueError):
            return ""


def check(place: Place) -> str:
    """Return iperf3's version at `place`. Raises `ToolError` if it is missing or unsuitable."""
    have = requirements.version(place, ["iperf3", "-v"], r"iperf (\d+\.\d+)", "iperf3")
    requirements.at_least(place, "iperf3", have, (3, 9), "--cport and complete JSON after SIGINT are required")
    try:
        features = place.run(["iperf3", "-v"])
    except CommandError as failed:
        raise requirements.ToolError(str(failed)) from failed
    if "TCP congestion algorithm" not in features:
        problem = "cannot set the congestion control; install a Linux build"
        raise requirements.ToolError(f"{place.name}: iperf3 {problem}")
    return ".".join(map(str, have))
