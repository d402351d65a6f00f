# SPDX-License-Identifier: Apache-2.0
"""Two switches in one network namespace, and the places of a lab plugged into them.

::

    client ─┐                                     ┌─ server
            ├─ br-lan ── lan [router] wan ── br-wan ┤
    receiver┘                                     ├─ sender
                                                  └─ outside, where the lab has a way out
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hardware.machine.namespaces import Namespaces
from hardware.machine.place import Place
from harness.lab.contract import Addresses

HUB, OUTSIDE = "hub", "outside"
ROUTER_LAN, ROUTER_WAN = "10.42.1.1", "10.42.2.1"
_HUB_MGMT = "10.42.0.254/24"
_LAN, WAY_OUT = "10.42.1.0/24", "10.42.2.254"
_GATEWAYS = {"client": ROUTER_LAN, "receiver": ROUTER_LAN, "server": ROUTER_WAN, "sender": ROUTER_WAN}


def cable(spaces: Namespaces, prefixes: Mapping[str, str] | None = None, mgmt: Collection[str] = ()) -> None:
    """Make the switches in the hub and plug every port in: `eth0` of a host, `lan` and `wan` of the router.

    `prefixes` are put before the interfaces' names in a namespace from which a node of its own takes them; those in
    `mgmt` are on a third switch too, by an interface of that name.

    Raises `hardware.machine.place.CommandError`.
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
    # No spanning tree, no snooping: a switch that forwards at once.
    lines = [f"link add br-{net} type bridge stp_state 0 mcast_snooping 0" for net in nets]
    lines += [f"link set {port} master br-{port.split('-')[0]}" for port in ports]
    lines += [f"link set br-{net} addrgenmode none up" for net in nets]
    lines += [f"address add {_HUB_MGMT} dev br-mgmt"] if mgmt else []
    _batch(spaces[HUB], lines)


def address(place: Place, name: str) -> None:
    """Give `eth0` of the end `name` of a lab its address and its way to the other side."""
    own = getattr(Addresses, name)
    _batch(place, [f"address add {own}/24 dev eth0", f"route add default via {_GATEWAYS[name]}"])


def address_outside(outside: Place, server: Place) -> None:
    """Give the end that leads out of a lab its address, and have the server go out by it, past the router."""
    to_clients = f"route add {_LAN} via {ROUTER_WAN}"
    _batch(outside, [f"address add {WAY_OUT}/24 dev eth0", to_clients])
    _batch(server, [to_clients, f"route replace default via {WAY_OUT}"])


def address_router(place: Place) -> None:
    """Give both sides of a router that is a namespace of ours their addresses."""
    _batch(place, [f"address add {ROUTER_LAN}/24 dev lan", f"address add {ROUTER_WAN}/24 dev wan"])


def _batch(place: Place, lines: list[str]) -> None:
    place.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n")
