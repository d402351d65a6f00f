# SPDX-License-Identifier: Apache-2.0
"""What is plugged into what, as the commands say that make it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harness.lab.contract import Addresses
from harness.lab.switches import HUB, ROUTER_LAN, ROUTER_WAN, address, address_router, cable

PORTS = {
    "lan-client": ("client", "eth0"),
    "lan-router": ("router", "lan"),
    "lan-receiver": ("receiver", "eth0"),
    "wan-server": ("server", "eth0"),
    "wan-router": ("router", "wan"),
    "wan-sender": ("sender", "eth0"),
}


class Spaces:
    """Namespaces that keep what is plugged, and for each the lines that ip got there."""

    def __init__(self) -> None:
        self.plugged: tuple[str, dict[str, tuple[str, str]]] | None = None
        self.lines: dict[str, list[str]] = {}

    def cable(self, hub: str, ports: Mapping[str, tuple[str, str]]) -> None:
        self.plugged = hub, dict(ports)

    def __getitem__(self, name: str) -> Any:
        return Place(self.lines.setdefault(name, []))


class Place:
    """Where ip is told lines."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def run(self, command: list[str], *, input: str) -> str:
        assert command == ["ip", "-batch", "-"]
        self._lines += input.splitlines()
        return ""


def test_each_side_of_the_router_is_one_switch() -> None:
    spaces = Spaces()
    cable(spaces)  # type: ignore[arg-type]
    assert spaces.plugged == (HUB, PORTS)
    assert list(spaces.lines) == [HUB]
    masters = [line for line in spaces.lines[HUB] if " master " in line]
    assert masters == [f"link set {port} master br-{port[:3]}" for port in PORTS]
    for net in ("lan", "wan"):
        made = spaces.lines[HUB].index(f"link add br-{net} type bridge stp_state 0 mcast_snooping 0")
        plugged = spaces.lines[HUB].index(f"link set {net}-router master br-{net}")
        assert made < plugged < spaces.lines[HUB].index(f"link set br-{net} addrgenmode none up")


def test_nodes_get_names_of_their_own_and_a_way_to_be_managed() -> None:
    spaces = Spaces()
    cable(spaces, {"router": "apu-", "sender": "apu-"}, mgmt=["router", "sender"])  # type: ignore[arg-type]
    assert spaces.plugged
    ports = spaces.plugged[1]
    assert (ports["lan-router"], ports["wan-sender"]) == (("router", "apu-lan"), ("sender", "apu-eth0"))
    assert ports["mgmt-router"] == ("router", "apu-mgmt") and ports["lan-client"] == ("client", "eth0")
    assert "link set mgmt-sender master br-mgmt" in spaces.lines[HUB]
    assert [line for line in spaces.lines[HUB] if line.startswith("address")] == [
        "address add 10.42.0.254/24 dev br-mgmt"
    ]


def test_every_end_has_its_address_and_the_router_as_its_way_out() -> None:
    spaces = Spaces()
    for end in ("client", "receiver", "server", "sender"):
        address(spaces[end], end)
        own, way = spaces.lines[end]
        given = re.fullmatch(r"address add (\S+)/24 dev eth0", own)
        assert given and given[1] == getattr(Addresses(), end)
        gateway = ROUTER_LAN if end in ("client", "receiver") else ROUTER_WAN
        assert way == f"route add default via {gateway}" and gateway.rsplit(".", 1)[0] == given[1].rsplit(".", 1)[0]
    address_router(spaces["router"])
    assert spaces.lines["router"] == ["address add 10.42.1.1/24 dev lan", "address add 10.42.2.1/24 dev wan"]


def test_no_name_of_an_interface_is_too_long_for_the_kernel() -> None:
    spaces = Spaces()
    cable(spaces, dict.fromkeys(("router", "receiver"), "apu-"), mgmt=["router", "receiver"])  # type: ignore[arg-type]
    assert spaces.plugged
    names = [*spaces.plugged[1], *(device for _, device in spaces.plugged[1].values()), "br-mgmt"]
    assert max(map(len, names)) <= 15
