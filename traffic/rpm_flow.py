# SPDX-License-Identifier: Apache-2.0
"""Contender `rpm`: a Responsiveness Test from the lab's sender to its receiver, run like a bulk flow."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import Process
from sojourn.traffic import ports
from sojourn.traffic.contender import CLASSIC_ECN, Contender, set_ecn
from sojourn.traffic.iperf3 import BulkError, BulkFlow
from sojourn.traffic.load import RPM
from sojourn.traffic.rpm_programs import Identity, failure, start_client, start_server

CONTROL = Contender(RPM, "cubic", CLASSIC_ECN)
"""The congestion control of its downloads, and the ECN mode."""


class ResponsivenessTest(BulkFlow):
    """The draft's test with its own load, by `sojourn.traffic.rpm`; its downloads go from sender to receiver.

    It loads the path until it is stopped: connections are added as in the draft, and no more after the test's result.
    """

    def __init__(
        self, sender: Place, receiver: Place, sender_address: str, receiver_address: str, directory: Path, *,
        number: int, identity: Identity,
    ) -> None:  # fmt: skip
        """`number`, of the flow in its run, selects the connections of self probes; `identity` is the sender's."""
        super().__init__(
            sender, receiver, receiver_address, CONTROL, directory, port=ports.RPM_LOAD,
            sender_port=ports.FIRST_SENDER + number, name=f"{RPM}-{number}",
        )  # fmt: skip
        self.sender_address, self._identity, self._number = sender_address, identity, number
        self._output = directory / f"{RPM}-{number}.jsonl"

    def launch(self, duration_s: float = 3600) -> None:
        """Start server and client, and return when the first download is requested. Raises ProcessError."""
        set_ecn(self.contender, self.sender, self.receiver)
        at = self.sender_address, self.port
        log = self._output.with_suffix(".server.log")
        self._server = start_server(self.sender, *at, self._identity, log)
        try:
            seed = f"--seed={self._number}"
            self.start_s = time.time()
            self._client = start_client("load", self.receiver, *at, self._identity, self._output, seed)
        except BaseException:
            self._end()
            raise

    def _await_connection(self) -> None:
        """It is there: the client waits for it."""

    @property
    def failure(self) -> str | None:
        """Why it has ended; None while it runs."""
        assert self._client and self._server
        return failure(self._client) or self._server.last_words()

    def stop(self) -> dict[str, Any]:
        """Stop the test; return its result, in the draft's names, and its probes. Raises BulkError if it had ended."""
        why = self.failure
        self._end()
        self.end_s = time.time()
        if why:
            raise BulkError(f"the Responsiveness Test has ended: {why}")
        lines = [json.loads(line) for line in self._output.read_text().splitlines()]
        return {
            "responsiveness": next((line["result"] for line in lines if "result" in line), None),
            "probes": [line for line in lines if "probe" in line],
        }

    def record(self, phase: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return its entry in bulk.json; `result` is what `stop` returned."""
        return {
            "contender": RPM,
            "phase": phase,
            "up": False,
            "start": self.start_s,
            "end": self.end_s,
            "sender": self.sender_address,
            "receiver": self.receiver_address,
            "server_port": self.port,
            **result,
        }

    def _end(self) -> None:
        ends: list[tuple[Process | None, signal.Signals]] = [
            (self._client, signal.SIGINT), (self._server, signal.SIGTERM)
        ]  # fmt: skip
        for end, how in ends:
            if end is not None:
                end.stop(how)
