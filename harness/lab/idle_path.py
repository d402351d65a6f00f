# SPDX-License-Identifier: Apache-2.0
"""Bulk flows alone through a lab's bottleneck: who gets which share, and how long a probe takes on an idle path."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bottleneck.spec import Bottleneck
from harness.lab import instruments
from harness.lab.contract import Lab
from scoring import latency, packets, pcapng
from traffic import ports
from traffic.iperf3 import BulkFlow

_TICK_S = 0.2
_MARGIN_S = 60


@dataclass(frozen=True)
class Share:
    """What one bulk flow got: D_SS in bit/s, and the row of :func:`scoring.packets.flow_table` that proves it."""

    contender: str
    d_ss_bps: float
    proof: dict[str, object]


def race(
    lab: Lab,
    bottleneck: Bottleneck,
    contenders: Sequence[str],
    folder: Path,
    *,
    seconds: float = 60,
    window: float = 40,
    tail: float = 2,
) -> list[Share]:
    """Let ``contenders`` start together, run for ``seconds`` and return their shares, in the order given.

    D_SS is the goodput by TCP sequence progress over the ``window`` seconds that end ``tail`` seconds before the
    end, captured on the router's LAN side. Raises :class:`RouterError`, :class:`BulkError`, :class:`ProcessError`.
    """
    lab.router.apply(bottleneck)
    flows = [
        instruments.bulk_flow(lab, name, folder, number, name=f"{number}-{name}")
        for number, name in enumerate(contenders)
    ]
    capture = instruments.start_capture(lab, "client", folder / "race.pcapng", only="tcp")
    try:
        with ExitStack() as stack:
            for flow in flows:
                stack.callback(_stop, flow)
                flow.start()
            end = time.time() + seconds
            while (left := end - time.time()) > 0:
                time.sleep(min(left, _TICK_S))
    finally:
        captured = capture.stop()
    advanced = packets.with_advance(pcapng.read(captured.file).packets)
    table = packets.flow_table(advanced)
    shares = []
    for i, name in enumerate(contenders):
        ends = {"src": lab.addresses.sender, "sport": flows[i].sender_port}
        ends |= {"dst": lab.addresses.receiver, "dport": flows[i].port}
        mine = packets.select(advanced, **ends)  # type: ignore[arg-type]
        row = packets.select(table, **ends).row(0, named=True)  # type: ignore[arg-type]
        shares.append(Share(name, packets.d_ss_bps(mine, end, window, tail), row))
    return shares


def _stop(flow: BulkFlow) -> None:
    if flow.alive():
        flow.stop()


def added_rtt_ms(lab: Lab, bottleneck: Bottleneck, file: Path, *, probes: int = 500, port: int = ports.IRTT) -> float:
    """Return the median round trip in ms of ``probes`` irtt packets, 10 ms apart, on an otherwise idle path."""
    lab.router.apply(bottleneck)
    return statistics.median(rtts_ms(lab, file, probes=probes, port=port))


def rtts_ms(lab: Lab, file: Path, *, probes: int, port: int = ports.IRTT) -> list[float]:
    """Return every round trip in ms of ``probes`` irtt packets, 10 ms apart, through the router as it is set up."""
    server = instruments.start_echo(lab, file.with_suffix(".server.log"))
    try:
        probe = instruments.start_probe(lab, file, probes * 0.01 + _MARGIN_S, port=port)
        time.sleep(probes * 0.01)
        probed = latency.read_irtt(probe.stop())
    finally:
        server.stop()
    return probed["rtt_ms"].drop_nulls().to_list()
