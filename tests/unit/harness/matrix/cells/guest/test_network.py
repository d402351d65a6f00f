# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ipaddress import ip_address, ip_interface
from typing import Any

import pytest

from sojourn.bottleneck.spec import Hop
from sojourn.hardware.machine.ip import IpVersion
from sojourn.harness.matrix.cells.guest import network, plan, script
from tests.unit.harness.matrix.cells.guest.cells import SHAPED, cell


def test_the_chain_is_routed_both_ways() -> None:
    chain = cell(20_000, hops=[Hop(), Hop(down=SHAPED), Hop()])
    assert network.network(chain).spaces == ["host0", "hop0", "hop1", "hop2", "receiver"]
    middle = script.addresses(chain, "hop1")
    assert "route add 10.42.1.0/24 via 10.43.1.2" in middle and "route add 10.42.2.0/24 via 10.43.0.1" in middle
    macs = [line.split(" lladdr ")[1].split()[0] for line in middle if "neighbour" in line]
    made = "\n".join(network.devices(chain))
    assert len(set(macs)) == 2 and all(mac in made for mac in macs)


@pytest.mark.parametrize(("version", "bits"), [(4, (24, 24, 30)), (6, (64, 64, 64))])
def test_every_address_is_of_the_version_and_reached_by_a_neighbour(version: IpVersion, bits: tuple[int, ...]) -> None:
    asked = cell(80_000, 10_000, hops=[Hop(down=SHAPED, up=SHAPED), Hop()], ip_version=version)
    net, reached = network.network(asked), set[Any]()
    own = {end.space: ip_interface(end.address) for link in net.links for end in link if end.address}
    assert {it.network.prefixlen for it in own.values()} == {*bits} and {it.version for it in own.values()} == {version}
    for space in (it for it in net.spaces if it != network.SWITCH):
        lines = script.addresses(asked, space)
        nets = [ip_interface(line.split()[2]).network for line in lines if line.startswith("address add")]
        for via in (ip_address(line.split()[-1]) for line in lines if line.startswith("route add")):
            assert any(via in its for its in nets), (space, via)
        reached |= {ip_address(line.split()[2]) for line in lines if line.startswith("neighbour")}
    assert {it.ip for it in own.values()} <= reached
    assert ("disable_ipv6" in script.script(asked, 1)) == (version == 6)
    assert plan.plan(asked, 1).splitlines()[0].endswith(f" {version}")


def test_tunnels_are_ipv4() -> None:
    with pytest.raises(
        ValueError, match="tunnels, and middleboxes that change the ECN field or DSCP, support IPv4 only"
    ):
        cell(10_000, tunnel="ipsec", ip_version=6)
