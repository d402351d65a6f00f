# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

from sojourn.bottleneck import readback, shaper
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


def test_the_filter_of_a_hosts_queue_is_read_back() -> None:
    hop = dumbbell.bottleneck(50, "fq_codel").model_copy(update={"host_queue": True})
    asked = cell(0, hops=[hop])
    queried = readback.filter_queries(*queues.shown(asked, "hop0"))
    lines = script.script(asked, 1).splitlines()
    assert [line for line in lines if line.startswith("show hop0 ")][-2:] == [f"show hop0 {query}" for query in queried]
    assert queues._host_filter("10.42.1.20").command("lan", readback.QUEUE) == shaper.one_queue("lan", "10.42.1.20")
    lacking = "hop0: lan: requested ip dst_ip 10.42.1.20 to fq_codel's class 10:1, found no such filter"
    one = {"options": {"classid": "10:1", "keys": {"eth_type": "ipv4", "dst_ip": "10.42.1.20"}}, "protocol": "ip"}
    usual = "[]\n" * len(readback.queries(*queues.shown(asked, "hop0")))
    at = queues.shown(asked, "hop0").index("lan")
    for shown, found in (([], True), ([one], False)):
        answers = ["[]", "[]"]
        answers[at] = json.dumps(shown)
        assert (lacking in queues.differences(asked, {"hop0": usual + "\n".join(answers)})) == found


def test_the_last_rate_of_a_schedule_is_read_back() -> None:
    asked = cell(0, hops=[Hop(), dumbbell.bottleneck(50, "pie", steps=[(1, 10), (2, 20)])])
    files = {"stepped-hop1-lan": "lan", "stepped-hop1-wan": "wan"}
    lines = script.script(asked, 1).splitlines()
    assert lines[-2:] == [f"tc -n hop1 -d -j class show dev {dev} >{file}" for file, dev in files.items()]
    shaped = {"class": "htb", "handle": "1:10", "quantum": 1514, "burst": 3028, "cburst": 3028}
    shown = {mbps: json.dumps([shaped | dict.fromkeys(("rate", "ceil"), mbps * 125_000)]) for mbps in (10, 20)}
    assert queues.unlike_rates(asked, dict.fromkeys(files, shown[20])) == []
    assert queues.unlike_rates(asked, dict(zip(files, (shown[20], shown[10]), strict=True))) == [
        f"hop1: wan: class 1:10 {key}: requested 2500000, found 1250000" for key in ("rate", "ceil")
    ]
    assert "class show dev lan >" not in script.script(cell(0), 1)
