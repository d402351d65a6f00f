# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from sojourn.traffic.tunnel import MTU, Kind, ProgramKind, TunnelEnd, commands, openvpn

ENDS = TunnelEnd("10.42.2.20", "10.44.0.1"), TunnelEnd("10.42.1.20", "10.44.0.2", key="KEY=")


def lines(kind: Kind) -> list[str]:
    return [" ".join(command) for command in commands(kind, *ENDS)]


def test_wireguard_takes_only_the_far_inner_address() -> None:
    made = lines("wireguard")
    assert made[0] == "ip link add sojourn type wireguard"
    assert made[1].endswith("peer KEY= allowed-ips 10.44.0.2/32 endpoint 10.42.1.20:5555")
    # IPv4 20, UDP 8, WireGuard 32 (header 16, tag 16): 1480 outside.
    assert MTU["wireguard"] + 20 + 8 + 32 <= 1500


def test_a_gateway_carries_the_net_behind_the_other() -> None:
    mine, other = ENDS
    made = [" ".join(command) for command in commands("wireguard", mine, replace(other, beyond="10.42.1.0/24"))]
    assert (
        "allowed-ips 10.44.0.2/32,10.42.1.0/24 " in made[1] and made[-1] == "ip route replace 10.42.1.0/24 dev sojourn"
    )


@pytest.mark.parametrize(("kind", "port"), [("fou", "5555"), ("fou-auto", "auto")])
def test_fou_has_one_source_port_or_one_for_each_flow(kind: Kind, port: str) -> None:
    made = lines(kind)
    assert "ip fou add port 5555 ipproto 4" in made
    assert f"encap fou encap-sport {port} encap-dport 5555" in made[1]
    assert "local 10.42.2.20 remote 10.42.1.20" in made[1]
    assert MTU[kind] + 20 + 8 == 1500


@pytest.mark.parametrize("kind", get_args(ProgramKind))
def test_openvpn_encrypts_or_says_that_it_does_not(kind: ProgramKind) -> None:
    words = openvpn(kind, *ENDS)
    assert words[words.index("--local") + 1 : words.index("--lport")] == ["10.42.2.20", "--remote", "10.42.1.20"]
    assert ("--secret" in words) == (kind == "openvpn") and (words[-1] == "none") == (kind == "openvpn-plain")
    assert words[words.index("--tun-mtu") + 1] == str(MTU[kind])


def test_every_kind_has_an_mtu_and_an_address() -> None:
    for kind in get_args(Kind):
        assert lines(kind)[-2:] == [
            "ip address add 10.44.0.1/30 dev sojourn",
            f"ip link set sojourn mtu {MTU[kind]} up",
        ]
