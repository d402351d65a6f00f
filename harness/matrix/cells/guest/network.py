# SPDX-License-Identifier: Apache-2.0
"""The topology of a cell: namespaces, links, addresses and routes. Pure.

::

    host0 ─┐                                                            one host for each RTT
    host1 ─┴ [switch] ─ [near] ─ wan·hop0·lan ─ wan·hop1·lan ─ [far] ─ receiver      near, far: ends of a tunnel

A host's packets are delayed by half its RTT where they leave it, and those to it by the rest at the other end of its
link, so no queue that is measured is also a delay: the switch is there where they would meet, and for several hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.machine.ip import IpVersion
from sojourn.hardware.node import mac
from sojourn.traffic.spec import Flow

RECEIVER, SWITCH, NEAR, FAR = "receiver", "switch", "near", "far"
HOST_DEV = "eth0"


@dataclass(frozen=True)
class NetworkPort:
    """One end of a link."""

    space: str
    dev: str
    address: str = ""

    @property
    def mac(self) -> str:
        """Its Ethernet address."""
        return mac(self.space, self.dev)

    @property
    def ip(self) -> str:
        """Its IP address, without the length of its prefix."""
        return bare(self.address)


@dataclass(frozen=True)
class Numbering:
    """Templates of an IP version's addresses: in a net by number (0: the net), on a link by its own and the end's."""

    hosts: str
    receiver: str
    links: str


NUMBERINGS: Mapping[IpVersion, Numbering] = {
    4: Numbering("10.42.2.{}/24", "10.42.1.{}/24", "10.43.{}.{}/30"),
    6: Numbering("fd42:2::{}/64", "fd42:1::{}/64", "fd42:3:{}::{}/64"),
}


@dataclass(frozen=True)
class Network:
    """The topology of a cell."""

    hosts: dict[int, NetworkPort]
    """By RTT, µs: the hosts of the server side."""
    receiver: NetworkPort
    boxes: tuple[str, ...]
    """Routers from the hosts to the receiver, including the gateways of a tunnel."""
    links: tuple[tuple[NetworkPort, NetworkPort], ...]
    numbers: Numbering

    def ends(self, flow: Flow) -> tuple[NetworkPort, NetworkPort]:
        """The sender and the receiver of a flow."""
        host = self.hosts[flow.rtt_us]
        return (self.receiver, host) if flow.up else (host, self.receiver)

    @property
    def spaces(self) -> list[str]:
        """All namespaces, in the order of the packets that go down."""
        return list(dict.fromkeys(end.space for link in self.links for end in link))


def hop_name(index: int) -> str:
    """The namespace of the hop at `index`, from 0."""
    return f"hop{index}"


def network(cell: Cell) -> Network:
    """Return hosts, routers and links of `cell` with their addresses."""
    numbers = NUMBERINGS[cell.ip_version]
    hosts = {rtt: NetworkPort(f"host{n}", HOST_DEV, numbers.hosts.format(20 + n)) for n, rtt in enumerate(cell.rtts_us)}
    hops = tuple(hop_name(n) for n in range(len(cell.hops)))
    boxes = (NEAR, *hops, FAR) if cell.tunnel else hops
    first = NetworkPort(boxes[0], "wan", numbers.hosts.format(1))
    receiver = NetworkPort(RECEIVER, HOST_DEV, numbers.receiver.format(20))
    if len(hosts) == 1 and (cell.tunnel or not cell.hops[0].up):
        links = [(next(iter(hosts.values())), first)]
    else:
        links = [(host, NetworkPort(SWITCH, f"port{n}")) for n, host in enumerate(hosts.values())]
        links.append((NetworkPort(SWITCH, "uplink"), first))
    for n, (left, right) in enumerate(pairwise(boxes)):
        ends = (numbers.links.format(n, end) for end in (1, 2))
        links.append((NetworkPort(left, "lan", next(ends)), NetworkPort(right, "wan", next(ends))))
    links.append((NetworkPort(boxes[-1], "lan", numbers.receiver.format(1)), receiver))
    return Network(hosts, receiver, boxes, tuple(links), numbers)


def devices(cell: Cell) -> list[str]:
    """Return the `ip -batch` lines that create all namespaces and links."""
    net = network(cell)
    lines = [f"netns add {space}" for space in net.spaces]
    for a, b in net.links:
        one, other = (f"{end.dev} address {end.mac} netns {end.space}" for end in (a, b))
        lines.append(f"link add {one} type veth peer name {other}")
    return lines


def peers(net: Network, end: NetworkPort) -> list[NetworkPort]:
    """Return the ports that `end` reaches without a router."""
    entry = NetworkPort(net.boxes[0], "wan", net.numbers.hosts.format(1))
    if end == entry:
        return list(net.hosts.values())
    if end in net.hosts.values():
        return [entry]
    return [b if a == end else a for a, b in net.links if end in (a, b)]


def routes(net: Network, space: str) -> list[str]:
    """The `ip -batch` lines of the routes of `space`."""
    numbers = net.numbers
    if space not in net.boxes:
        side = numbers.receiver if space == RECEIVER else numbers.hosts
        return [f"route add default via {bare(side.format(1))}"]
    at, last = net.boxes.index(space), len(net.boxes) - 2
    # The far links too: a tunnel's ends are on them.
    beyond = numbers.receiver.format(0), numbers.links.format(last, 0)
    down = [f"route add {to} via {bare(numbers.links.format(at, 2))}" for to in beyond] if at <= last else []
    before = numbers.hosts.format(0), numbers.links.format(0, 0)
    up = [f"route add {to} via {bare(numbers.links.format(at - 1, 1))}" for to in before] if at else []
    return [*down[: 2 if at < last else 1], *up[: 2 if at > 1 else 1]]


def bare(address: str) -> str:
    """An address without the length of its prefix."""
    return address.partition("/")[0]
