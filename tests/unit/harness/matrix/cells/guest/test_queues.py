# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.delivery_trace import DeliveryTrace
from sojourn.bottleneck.readback import ReadbackError
from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells.guest import network, plan, queues, script
from tests.unit.harness.matrix.cells.guest.cells import SHAPED, cell


def delays(asked: Cell) -> dict[str, str]:
    """Where netem is, and its delay."""
    return {
        f"{space} {line.split()[5]}": line.split("delay ")[1]
        for line in plan.plan(asked, 1).splitlines()
        if " netem " in line and (space := line.split()[1])
    }


def test_each_half_of_the_rtt_is_at_one_end_of_the_hosts_link() -> None:
    assert delays(cell(20_001)) == {"host0 eth0": "10ms", "hop0 wan": "10001us"}
    assert delays(cell(0)) == {}
    several = delays(cell(10_000, 160_000, 10_000))
    assert several == {"host0 eth0": "5ms", "switch port0": "5ms", "host1 eth0": "80ms", "switch port1": "80ms"}


def test_a_delay_never_shares_a_device_with_a_queue() -> None:
    both = cell(20_000, hops=[Hop(down=SHAPED, up=SHAPED)])
    assert delays(both) == {"host0 eth0": "10ms", "switch port0": "10ms"}
    ipsec = cell(20_000, hops=[Hop(down=SHAPED, up=SHAPED)], tunnel="ipsec")
    assert "switch" not in network.network(ipsec).spaces


def test_a_hop_of_slots_has_them_as_root_before_its_queue_and_is_read_back() -> None:
    link = DeliveryTrace(mean_mbps=5, seconds=5)
    asked = cell(20_000, hops=[dumbbell.slotted(link, "fq_codel")], seconds=5)
    text = script.script(asked, 1)
    assert "cat slots-hop0 >/proc/slots\ntc -n hop0 qdisc add dev lan root handle 1: slots\n" in text
    assert "tc hop0 qdisc add dev lan parent 1:1 handle 10: fq_codel" in text
    assert "hop0 class add dev lan" not in text and "hop0 class add dev wan" in text
    assert text.rstrip().endswith("ip netns exec hop0 cat /proc/slots >seen-slots-hop0")


def test_a_missing_queue_is_told_with_its_place() -> None:
    empty = {space: "[]\n" * (1 + 3 * devices) for space, devices in (("host0", 1), ("hop0", 2))}
    found = queues.differences(cell(20_000), empty)
    assert "hop0: lan: requested htb 1: as root, found no qdisc" in found
    assert "host0: eth0: requested netem 1: as root, found no qdisc" in found
    assert "hop0: lan: requested dualpi2 10: below 1:10" in str(ReadbackError(found))
