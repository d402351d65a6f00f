# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix.cells.guest import script
from tests.unit.harness.matrix.cells.guest.cells import SHAPED, cell


def test_tunnels_of_devices_are_made_by_both_gateways() -> None:
    text = script.script(cell(20_000, hops=[Hop(), Hop(down=SHAPED), Hop()], tunnel="wireguard"), 1).splitlines()
    made = [line for line in text if "wg set" in line]
    assert [line.split()[3] for line in made] == ["near", "far"] and "peer $(wg pubkey </run/far.key)" in made[0]
    assert "ip netns exec near ip route replace 10.42.1.0/24 dev sojourn" in text
    assert "ip netns exec far ip route replace 10.42.2.0/24 dev sojourn" in text
    assert "link set dev eth0 mtu 1420" in text
