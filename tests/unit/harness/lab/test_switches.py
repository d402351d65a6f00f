# SPDX-License-Identifier: Apache-2.0
"""What is plugged into what, as the commands say that make it."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_interface
from typing import Any

import pytest

from sojourn.hardware.machine.ip import IP_VERSIONS, IpVersion
from sojourn.harness.lab.switches import HUB, PLANS, address, address_router, cable

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
        self.places: dict[str, Any] = {}

    def cable(self, hub: str, ports: Mapping[str, tuple[str, str]]) -> None:
        self.plugged = hub, dict(ports)

    def __getitem__(self, name: str) -> Any:
        return Place(self.lines.setdefault(name, []))


class Place:
    """Where ip is told lines, and a shell."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def run(self, command: list[str], *, input: str = "") -> str:
        assert command[0] == "sh" or command == ["ip", "-batch", "-"]
        self._lines += (input or command[-1]).splitlines()
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


@pytest.mark.parametrize("version", IP_VERSIONS)
def test_every_end_has_its_address_and_the_router_as_its_way_out(version: IpVersion) -> None:
    spaces, plan = Spaces(), PLANS[version]
    address_router(spaces["router"], plan)
    sides = {line.split()[-1]: ip_interface(line.split()[2]) for line in spaces.lines["router"] if "add" in line}
    for end, side in (("client", "lan"), ("receiver", "lan"), ("server", "wan"), ("sender", "wan")):
        address(spaces[end], end, plan)
        *_, own, way = spaces.lines[end]
        given = ip_interface(own.removeprefix("address add ").removesuffix(" dev eth0"))
        assert given.version == version and str(given.ip) == getattr(plan.ends, end)
        assert given.network == sides[side].network and way == f"route add default via {sides[side].ip}"


def test_ipv6_is_silent_but_where_it_is_used() -> None:
    spaces = Spaces()
    address(spaces["client"], "client", PLANS[4])
    address(spaces["server"], "server", PLANS[6])
    assert not any("ipv6" in line for line in spaces.lines["client"])
    files = [line.rpartition("/")[2] for line in spaces.lines["server"] if line.startswith("echo 0 >")]
    assert files == ["accept_dad", "router_solicitations", "disable_ipv6"]


def test_no_name_of_an_interface_is_too_long_for_the_kernel() -> None:
    spaces = Spaces()
    cable(spaces, dict.fromkeys(("router", "receiver"), "apu-"), mgmt=["router", "receiver"])  # type: ignore[arg-type]
    assert spaces.plugged
    names = [*spaces.plugged[1], *(device for _, device in spaces.plugged[1].values()), "br-mgmt"]
    assert max(map(len, names)) <= 15
