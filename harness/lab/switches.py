# SPDX-License-Identifier: Apache-2.0
"""Two switches in one network namespace, and the places of a lab plugged into them.

::

    client ─┐                                     ┌─ server
            ├─ br-lan ── lan [router] wan ── br-wan ┤
    receiver┘                                     ├─ sender
                                                  └─ outside, if the lab has internet access
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from ipaddress import ip_interface

from sojourn.hardware.machine.ip import IpVersion, ip_version
from sojourn.hardware.machine.namespaces import Namespaces
from sojourn.hardware.machine.place import Place
from sojourn.harness.lab.contract import Addresses

HUB, OUTSIDE = "hub", "outside"
WAY_OUT = "10.42.2.254"
_HUB_MGMT = "10.42.0.254/24"


@dataclass(frozen=True)
class Plan:
    """The addresses of a Sojourn lab in one IP version: ends, router, and prefix length."""

    ends: Addresses
    lan: str
    wan: str
    length: int

    @property
    def near(self) -> str:
        """The network on the router's LAN side."""
        return str(ip_interface(f"{self.lan}/{self.length}").network)

    def gateway(self, end: str) -> str:
        """Return the router's address on the side of an end."""
        return self.lan if end in ("client", "receiver") else self.wan


PLANS: Mapping[IpVersion, Plan] = {
    4: Plan(Addresses("10.42.1.10", "10.42.1.20", "10.42.2.10", "10.42.2.20"), "10.42.1.1", "10.42.2.1", 24),
    6: Plan(Addresses("fd42:1::10", "fd42:1::20", "fd42:2::10", "fd42:2::20"), "fd42:1::1", "fd42:2::1", 64),
}


def cable(spaces: Namespaces, prefixes: Mapping[str, str] | None = None, mgmt: Collection[str] = ()) -> None:
    """Create the switches in the hub and connect every port: `eth0` of a host, `lan` and `wan` of the router.

    `prefixes` precede interface names in a namespace from which a node takes them over; places in `mgmt` are also on a
    third switch, with an interface of that name.

    Raises `sojourn.hardware.machine.place.CommandError`.
    """
    before = prefixes or {}
    nets = {
        "lan": [("client", "eth0"), ("router", "lan"), ("receiver", "eth0")],
        "wan": [("server", "eth0"), ("router", "wan"), ("sender", "eth0")],
    }
    if OUTSIDE in spaces.places:
        nets["wan"].append((OUTSIDE, "eth0"))
    if mgmt:
        nets["mgmt"] = [(name, "mgmt") for name in mgmt]
    ports = {
        f"{net}-{name}": (name, f"{before.get(name, '')}{device}")
        for net, ends in nets.items()
        for name, device in ends
    }
    spaces.cable(HUB, ports)
    # No spanning tree and no snooping: the switch forwards at once.
    lines = [f"link add br-{net} type bridge stp_state 0 mcast_snooping 0" for net in nets]
    lines += [f"link set {port} master br-{port.split('-')[0]}" for port in ports]
    lines += [f"link set br-{net} addrgenmode none up" for net in nets]
    lines += [f"address add {_HUB_MGMT} dev br-mgmt"] if mgmt else []
    _batch(spaces[HUB], lines)


def address(place: Place, name: str, plan: Plan) -> None:
    """Configure address and default route of `eth0` at the end `name` of a lab."""
    _give(place, {"eth0": getattr(plan.ends, name)}, plan)
    _batch(place, [f"route add default via {plan.gateway(name)}"])


def address_outside(outside: Place, server: Place, plan: Plan) -> None:
    """Configure the end with internet access, and route the server's traffic through it, past the router."""
    to_clients = f"route add {plan.near} via {plan.wan}"
    _batch(outside, [f"address add {WAY_OUT}/{plan.length} dev eth0", to_clients])
    _batch(server, [to_clients, f"route replace default via {WAY_OUT}"])


def address_router(place: Place, plan: Plan) -> None:
    """Configure the addresses on both sides of a router that is one of Sojourn's namespaces."""
    _give(place, {"lan": plan.lan, "wan": plan.wan}, plan)


def _give(place: Place, addresses: Mapping[str, str], plan: Plan) -> None:
    """Add addresses to interfaces that are up; IPv6 addresses without delay and without autoconfiguration."""
    if ip_version(plan.lan) == 6:
        settings = "accept_dad", "router_solicitations", "disable_ipv6"
        lines = [f"echo 0 >/proc/sys/net/ipv6/conf/{device}/{name}" for device in addresses for name in settings]
        place.run(["sh", "-ec", "\n".join(lines)])
    _batch(place, [f"address add {own}/{plan.length} dev {device}" for device, own in addresses.items()])


def _batch(place: Place, lines: list[str]) -> None:
    place.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n")
