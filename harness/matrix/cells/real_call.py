# SPDX-License-Identifier: Apache-2.0
"""A cell's call in a real-time lab: two connected browsers that show each other the full picture."""

from __future__ import annotations

import time
from pathlib import Path

import polars as pl

from sojourn.apps.base import ServiceError
from sojourn.apps.call import BrowserCall as Browsers
from sojourn.hardware.machine.files import log_file
from sojourn.harness.lab.contract import Lab
from sojourn.harness.lab.instruments import Instruments
from sojourn.scoring.gates.base import gate
from sojourn.scoring.packets import per_flow
from sojourn.scoring.schema.columns import TALKS
from sojourn.scoring.validity import Gate
from sojourn.traffic import spec
from sojourn.traffic.irtt import TOS

_CE = 3
_SETTLED_S, _POLL_S = 60.0, 0.25
_IP_UDP_BYTES = 28


def browsers(call: spec.Call) -> Browsers:
    """Return the two ends of such a call; renders their cameras' film if it is missing. Raises ServiceError."""
    assert call.ecn != "nqb", "no real-time lab has it, see missing_capability"
    made = Browsers(bitrate_bps=call.bitrate_bps, ecn=call.ecn, recorder=None)
    made.prepare()
    return made


def call_shown(parts: Instruments, requested: spec.Call, folder: Path) -> Browsers:
    """Return a call between the client and the server once both ends show its size; its files go to `folder`.

    Raises ServiceError when there is no call, or none of that size within a minute; ProcessError without a screen.
    """
    call = browsers(requested)
    parts.play(call, parts.screen(log_file(folder, "xvfb")), folder)
    deadline = time.monotonic() + _SETTLED_S
    while not call.settled:
        parts.check()
        if time.monotonic() > deadline:
            raise ServiceError(f"call: no full picture after {_SETTLED_S:g} s", code="no-picture")
        time.sleep(_POLL_S)
    return call


def arrived(call: Browsers, lab: Lab, client: pl.DataFrame, server: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the packets of a call captured behind the bottleneck: down, up."""
    ends = call.facts["call"]
    down = per_flow.select(client, src=lab.addresses.server, sport=ends["server_port"], dport=ends["client_port"])
    up = per_flow.select(server, src=lab.addresses.client, sport=ends["client_port"], dport=ends["server_port"])
    return down, up


def talks(ways: tuple[pl.DataFrame, pl.DataFrame], t0: float, seconds: float) -> pl.DataFrame:
    """Return the rows of TALKS, without delays, for packets that arrived within `seconds` s from `t0` (Unix s) on."""
    parts = [
        pl.DataFrame(
            {
                "t_s": (way["t_ns"] - round(t0 * 1e9)) / 1e9,
                "talk": pl.repeat(n, way.height, eager=True, dtype=pl.Int64),
                "bytes": way["ip_bytes"].cast(pl.Int64) - _IP_UDP_BYTES,
            },
            schema={name: kind for name, kind in TALKS.items() if name != "delay_us"},
        )
        for n, way in enumerate(ways)
    ]
    return pl.concat(parts).filter(pl.col("t_s").is_between(0, seconds)).sort("t_s", "talk")


def marked(call: spec.Call, ways: tuple[pl.DataFrame, pl.DataFrame], t0: float) -> list[Gate]:
    """Return the gates that each direction has packets since `t0` (Unix s), all with the requested codepoint or CE."""
    gates = []
    for name, way in zip(("down", "up"), ways, strict=True):
        fields = way.filter(pl.col("t_ns") >= round(t0 * 1e9))["ecn"].to_list()
        wrong = sum(field not in (TOS[call.ecn], _CE) for field in fields)
        measured = f"{wrong} of {len(fields)} packets otherwise"
        limit = "some packets, none otherwise"
        gates.append(gate("call-marked", f"call {name} {call.ecn}", bool(fields) and not wrong, measured, limit))
    return gates
