# SPDX-License-Identifier: Apache-2.0
"""The instruments of a lab, the same for every experiment: captures, probes, queue samplers, bulk flows."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from sojourn.bottleneck.router import Router
from sojourn.bottleneck.sampler import QdiscSampler
from sojourn.captures.packets import PacketCapture, own_traffic
from sojourn.hardware.machine.process import Process
from sojourn.harness.lab.contract import Lab, Tap
from sojourn.traffic import irtt, ports
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.iperf3 import BulkFlow
from sojourn.traffic.irtt import Codepoint, IrttClient

Side = Literal["client", "server"]
SIDES: tuple[Side, ...] = ("client", "server")
"""The capture points: after the bottleneck and before it, in the downward direction."""


def tap(lab: Lab, side: Side) -> Tap:
    """Return the capture point on one side of the bottleneck."""
    return lab.client_tap if side == "client" else lab.server_tap


def start_capture(lab: Lab, side: Side, file: Path, *, only: str = "", elsewhere: bool = False) -> PacketCapture:
    """Capture the packets of the lab's hosts on one side, filtered by `only`, to `file` (….pcapng).

    `elsewhere`: the client's peers may be anywhere. Raises ProcessError.
    """
    at = tap(lab, side)
    own = own_traffic(lab.hosts, lab.viewers if elsewhere else ())
    only = f"({only}) and ({own})" if only and own else only or own
    return PacketCapture.start(at.place, at.interface, file, only=only)


def start_echo(lab: Lab, log: Path) -> Process:
    """Start the server that answers the lab's probes. Raises ProcessError."""
    return irtt.start_server(lab.server, lab.addresses.server, log, wrap=lab.realtime)


def start_probe(
    lab: Lab, file: Path, limit_s: float, *, port: int = ports.IRTT, interval_ms: float = 10,
    codepoint: Codepoint = "not-ect",
) -> IrttClient:  # fmt: skip
    """Probe from the client to the echo, for at most `limit_s` s; `port` IRTT_UNSHAPED bypasses the queue.

    Raises IrttError, ProcessError.
    """
    probe = IrttClient(
        lab.client, lab.addresses.server, file, port=port, interval_ms=interval_ms, codepoint=codepoint,
        wrap=lab.realtime,
    )  # fmt: skip
    return probe.start(limit_s)


def queue_sampler(router: Router, file: Path, interval_s: float = 0.1) -> QdiscSampler:
    """Return a sampler, not started, of both queues of a router."""
    return QdiscSampler(router.place, file, router.lan, router.wan, interval_s)


def bulk_flow(
    lab: Lab, contender: str, folder: Path, number: int = 0, *, name: str, up: bool = False, address: str = "",
    port: int | None = None,
) -> BulkFlow:  # fmt: skip
    """Return bulk flow `number` of a run, not started, from the lab's sender to its receiver, or reversed with `up`.

    Args:
        address: its destination, if not the far end's own address (a tunnel's).
        port: its destination port; default: a separate port.
    """
    down = lab.sender, lab.receiver, lab.addresses.receiver
    sender, receiver, own = (lab.receiver, lab.sender, lab.addresses.sender) if up else down
    return BulkFlow(
        sender, receiver, address or own, CONTENDERS[contender], folder,
        port=ports.BULK + number if port is None else port, sender_port=ports.FIRST_SENDER + number, name=name, up=up,
    )  # fmt: skip
