# SPDX-License-Identifier: Apache-2.0
"""A user's program next to a TCP flow: each has its own packets, by the ports that their records name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest

from sojourn.scoring.contenders import contenders
from sojourn.scoring.evidence import RecordedPhase, Setting, SideCapture
from sojourn.scoring.packets import per_flow
from sojourn.scoring.packets.pcapng import CE, ECT0, ECT1, SCHEMA, TCP, UDP

T0, SECONDS, RATE = 1000.0, 20, 100  # packets per second
PORT, CUBIC = 5201, 40001


def packets(sport: int, dport: int, proto: int, ecn: int, payload: int) -> pl.DataFrame:
    number = pl.int_range(SECONDS * RATE, eager=True)
    columns = {
        "t_ns": number * (1_000_000_000 // RATE) + round(T0 * 1e9), "ip_id": number, "fingerprint": number, "src": 1,
        "dst": 2, "sport": sport, "dport": dport, "proto": proto, "ecn": ecn, "payload": payload,
        "ip_bytes": payload + 28, "seq": number * payload,
    }  # fmt: skip
    every = {name: columns.get(name, 0) for name in SCHEMA}
    return pl.DataFrame({"n": number}).select(
        (pl.lit(value) if isinstance(value, int) else value).cast(SCHEMA[name]).alias(name)
        for name, value in every.items()
    )


def captured(*flows: pl.DataFrame) -> SideCapture:
    table = per_flow.with_advance(pl.concat(flows).sort("t_ns"))
    return SideCapture(1500, table, table[:0], table, table[:0], table[:0])


@pytest.mark.parametrize("serves", [False, True])
@pytest.mark.parametrize("load", ["program_mine+cubic", "cubic+program_mine"])
def test_a_program_and_a_tcp_flow_are_told_apart(load: str, serves: bool) -> None:
    # Two connections of the program, from or to the server's port.
    ends = [(PORT, other) if serves else (other, PORT) for other in (51_000, 52_000)]
    mine = [packets(*ports, UDP, ECT1, 500) for ports in ends]
    cubic = packets(CUBIC, 5202, TCP, ECT0, 1000)
    marked = mine[0].with_columns(ecn=pl.when(pl.col("ip_id") % 4 == 0).then(CE).otherwise("ecn").cast(SCHEMA["ecn"]))
    span = {"phase": "both", "start": T0, "end": T0 + SECONDS}
    records: list[dict[str, Any]] = [
        span | {"contender": "cubic", "sender_port": CUBIC},
        span | {"contender": "program_mine", "server_port": PORT, "serves": serves},
    ]
    setting = SimpleNamespace(
        phases=[RecordedPhase("both", load, T0, T0 + SECONDS)], lab={"qdisc_down": "dualpi2", "qdisc_up": "dualpi2"}
    )
    found, _ = contenders(cast(Setting, setting), records, [], captured(marked, mine[1], cubic), captured(*mine, cubic))
    flows = {part.load.contender: part.flow for part in found}
    program, tcp = flows["program_mine"], flows["cubic"]
    assert program and tcp
    count = SECONDS * RATE
    assert (program.data_packets, program.ect1, program.ce) == (2 * count, 2 * count, count // 4)
    assert program.window_goodput_mbps == pytest.approx(2 * 500 * 8 * RATE / 1e6, rel=0.01)
    assert (tcp.sport, tcp.data_packets, tcp.ect0, tcp.ce) == (CUBIC, count, count, 0)
    assert tcp.window_goodput_mbps == pytest.approx(1000 * 8 * RATE / 1e6, rel=0.01)
    assert [part.lasted for part in found] == [(T0, T0 + SECONDS)] * 2
