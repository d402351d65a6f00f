# SPDX-License-Identifier: Apache-2.0
"""Delay probes: irtt through the bottleneck (see `sojourn.traffic.probes`) and, on another port, around its queue."""

from __future__ import annotations

import base64
import signal
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from sojourn.hardware.machine import requirements
from sojourn.hardware.machine.ip import as_host
from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import Process, ProcessError
from sojourn.traffic import ports

Codepoint = Literal["not-ect", "ect1", "ect0", "ce", "nqb"]
# The IP header's ECN field (RFC 3168); irtt's --dscp is the whole former TOS byte. NQB: DSCP 45, Not-ECT (RFC 9956).
TOS: dict[Codepoint, int] = {"not-ect": 0, "ect1": 1, "ect0": 2, "ce": 3, "nqb": 45 << 2}
_LENGTH = 172  # payload in bytes: a G.711 packet of 20 ms
_CONNECT_S = 10.0


class IrttError(RuntimeError):
    """A probe could not start or wrote no result; the message has irtt's reason."""


def start_server(
    place: Place,
    address: str,
    log: Path,
    listen: Sequence[int] = (ports.IRTT, ports.IRTT_ECT1, ports.IRTT_UNSHAPED),
    wrap: Sequence[str] = (),
) -> Process:
    """Start an irtt server on the ports `listen` of `address`; it is ready on return. Stop it with `stop()`.

    Raises `sojourn.hardware.machine.process.ProcessError`.
    """
    bind = ",".join(f"{as_host(address)}:{port}" for port in listen)
    listening = r"[\s\S]*".join([r"\[ListenerStart\] starting"] * len(listen))
    # A queue releases probes in bursts; with a minimum interval, the server would drop them.
    return Process.start(
        place,
        ["irtt", "server", "-i", "0", "-b", bind],
        stdout=log,
        ready=listening,
        ready_in="stdout",
        wrap=wrap,
    )


class IrttClient:
    """A probe from `place` to `server:port`, until stopped; its gzipped JSON goes to `output` (….json.gz)."""

    def __init__(
        self,
        place: Place,
        server: str,
        output: Path,
        *,
        port: int = ports.IRTT,
        interval_ms: float = 10,
        codepoint: Codepoint = "not-ect",
        wrap: Sequence[str] = (),
    ) -> None:
        self._wrap = tuple(wrap)
        self.place, self.server, self.port, self.output = place, as_host(server), port, output
        self._options = [
            "-i",
            f"{round(interval_ms * 1000)}us",
            "-l",
            str(_LENGTH),
            f"--dscp={TOS[codepoint]}",
        ]
        # irtt 0.9.0 writes nothing with "-o -"; on an ssh host, its file is fetched after the probe.
        self._remote = f"/tmp/sojourn-irtt-{uuid.uuid4().hex}.json.gz" if place.remote else ""
        self._process: Process | None = None

    def start(self, limit_s: float = 1800) -> Self:
        """Start probing; return once the server has answered. `limit_s` (s) limits a probe that is never stopped.

        irtt reserves about 200 bytes per probe up to the limit: hours are too much for a small node.

        Raises `IrttError`.
        """
        target, log = self._remote or str(self.output), self.output.with_suffix(".log")
        command = ["irtt", "client", *self._options, "-d", f"{limit_s:g}s", "-q", "-o", target]
        command.append(f"{self.server}:{self.port}")
        try:
            self._process = Process.start(
                self.place,
                command,
                stdout=log,
                ready=r"\[Connected\]",
                ready_in="stdout",
                timeout=_CONNECT_S,
                wrap=self._wrap,
            )
        except ProcessError as failed:
            raise IrttError(f"{self.place.name}: no irtt answer from {self.server}:{self.port}: {failed}") from failed
        return self

    def alive(self) -> bool:
        """Whether the probe still runs."""
        return self._process is not None and self._process.alive()

    def stop(self) -> Path:
        """Stop the probe and return `output`. Raises `IrttError` if irtt wrote no JSON."""
        assert self._process is not None
        # irtt waits for late replies before it writes: 3 RTTs, or 4 s if none arrived.
        reason = self._process.log_tail(1)
        code = self._process.stop(signal.SIGINT, grace=15)
        if self._remote:
            fetched = self.place.run(
                ["sh", "-c", f"base64 {self._remote}; rm -f {self._remote}"], check=False, timeout=60
            )
            if fetched:
                self.output.write_bytes(base64.b64decode(fetched))
        if not self.output.exists():
            raise IrttError(
                f"{self.place.name}: irtt to {self.server}:{self.port} wrote no result (exit code {code}): {reason}"
            )
        return self.output


def check(place: Place) -> str:
    """Return irtt's version at `place`. Raises `ToolError` if it is missing or too old."""
    have = requirements.version(place, ["irtt", "version"], r"irtt version: (\d+\.\d+)", "irtt")
    requirements.at_least(place, "irtt", have, (0, 9), "the JSON format of irtt 0.9 is required")
    return ".".join(map(str, have))
