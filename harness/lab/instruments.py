# SPDX-License-Identifier: Apache-2.0
"""What loads and observes a lab, made alike for every experiment: captures, probes, samplers of queues, bulk flows."""

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
"""Where packets are captured: behind the bottleneck and before it, as the data goes down."""


def tap(lab: Lab, side: Side) -> Tap:
    """Where the packets of a side of the bottleneck are captured."""
    return lab.client_tap if side == "client" else lab.server_tap


def start_capture(lab: Lab, side: Side, file: Path, *, only: str = "", elsewhere: bool = False) -> PacketCapture:
    """Capture a side's packets, those of a filter `only`, into `file` (….pcapng); of nobody but the lab's hosts.

    `elsewhere`: the client's peers are any. Raises ProcessError.
    """
    at = tap(lab, side)
    own = own_traffic(lab.hosts, lab.viewers if elsewhere else ())
    only = f"({only}) and ({own})" if only and own else only or own
    return PacketCapture.start(at.place, at.interface, file, only=only)


def start_echo(lab: Lab, log: Path) -> Process:
    """Start what answers the lab's probes. Raises ProcessError."""
    return irtt.start_server(lab.server, lab.addresses.server, log, wrap=lab.realtime)


def start_probe(
    lab: Lab, file: Path, limit_s: float, *, port: int = ports.IRTT, interval_ms: float = 10,
    codepoint: Codepoint = "not-ect",
) -> IrttClient:  # fmt: skip
    """Probe from the client to the echo, for `limit_s` seconds at most; `port` IRTT_UNSHAPED goes past the queue.

    Raises IrttError, ProcessError.
    """
    probe = IrttClient(
        lab.client, lab.addresses.server, file, port=port, interval_ms=interval_ms, codepoint=codepoint,
        wrap=lab.realtime,
    )  # fmt: skip
    return probe.start(limit_s)


def queue_sampler(router: Router, file: Path, interval_s: float = 0.1) -> QdiscSampler:
    """A sampler, not started, of both of a router's queues."""
    return QdiscSampler(router.place, file, router.lan, router.wan, interval_s)


def bulk_flow(
    lab: Lab, contender: str, folder: Path, number: int = 0, *, name: str, up: bool = False, address: str = "",
    port: int | None = None,
) -> BulkFlow:  # fmt: skip
    """Bulk flow `number` of a run, not started, from the lab's sender to its receiver, or the other way with `up`.

    Args:
        address: where it is sent to, when not to the far end's own address (a tunnel's).
        port: where it arrives; default: one of its own.
    """
    down = lab.sender, lab.receiver, lab.addresses.receiver
    sender, receiver, own = (lab.receiver, lab.sender, lab.addresses.sender) if up else down
    return BulkFlow(
        sender, receiver, address or own, CONTENDERS[contender], folder,
        port=ports.BULK + number if port is None else port, sender_port=ports.FIRST_SENDER + number, name=name, up=up,
    )  # fmt: skip
