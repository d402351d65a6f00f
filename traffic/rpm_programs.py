# SPDX-License-Identifier: Apache-2.0
"""The programs of the Responsiveness Test (`sojourn.traffic.rpm`) at the hosts of a lab."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, NamedTuple

from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import Process, ProcessError
from sojourn.traffic.responsiveness import FOREIGN_BYTES, probe_interval_s

PROBES_FILE = "rpm.jsonl"
"""The foreign probes of --rpm in a run directory."""
PROBE_INTERVAL_S = 0.5
"""Interval of the foreign probes of --rpm, s. The draft allows up to 100 per second; each costs two TLS handshakes of
processor time, and two per second are 80 kbit/s by the draft's estimate, as much as a latency probe."""
_MODULE = "sojourn.traffic.rpm"


class Identity(NamedTuple):
    """PEM files of the server's certificate and key and of its authority, and the host that the certificate names."""

    chain: Path
    key: Path
    authority: Path
    host: str


def interval_s(*rates_bps: int | None) -> float:
    """Return the interval of foreign probes, s, on a path with these rates, bit/s: the draft's share is the limit."""
    known = [rate for rate in rates_bps if rate]
    return max(PROBE_INTERVAL_S, *(probe_interval_s(rate, FOREIGN_BYTES) for rate in known), 0)


def start_server(place: Place, address: str, port: int, identity: Identity, output: Path) -> Process:
    """Start a test server; it answers on return. Raises ProcessError, also for a place on another host."""
    files = (f"--chain={identity.chain}", f"--key={identity.key}")
    return Process.start(place, _program(place, "serve", address, port, *files), stdout=output, ready="listening")


def start_client(
    does: Literal["probe", "load"], place: Place, address: str, port: int, identity: Identity, output: Path,
    *arguments: str,
) -> Process:  # fmt: skip
    """Start foreign probes, or the whole test, with lines of JSON in `output`; return once the server has answered.

    Raises ProcessError, also for a place on another host.
    """
    server = (f"--authority={identity.authority}", f"--host={identity.host}")
    command = _program(place, does, address, port, *server, *arguments)
    return Process.start(place, command, stdout=output, ready="connected" if does == "probe" else "loading")


def failure(client: Process) -> str | None:
    """Return why a client has ended, without its lines of JSON; None while it runs."""
    if client.alive():
        return None
    said = client.stderr_path.read_text(errors="replace").splitlines()
    return said[-1] if said else "no output"


def _program(place: Place, *arguments: object) -> list[str]:
    if place.remote:
        raise ProcessError(
            f"{place.name} is on another host, whose Python need not have HTTP/2; the Responsiveness Test (--rpm, and "
            "contender rpm) needs client and server on this machine",
            code="unsupported",
        )
    return [sys.executable, "-P", "-m", _MODULE, *map(str, arguments)]
