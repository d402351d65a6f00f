# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from ipaddress import ip_address, ip_interface
from itertools import pairwise
from statistics import median, quantiles
from typing import Any

import pytest

from bottleneck.qdiscs import parse_qdisc
from bottleneck.readback import ReadbackError
from bottleneck.shaper import RateStep
from bottleneck.slots import Slots
from bottleneck.spec import Direction
from hardware.machine.ip import IpVersion
from harness.matrix import dumbbell, simulated, simulated_job
from harness.matrix.cell import Call, Cell, Flow, Hop, Probe, ShortFlows
from traffic import nstat

SHAPED = Direction(rate_bps=50_000_000, qdisc="dualpi2")


def cell(*rtts_us: int, **more: object) -> Cell:
    flows = tuple(Flow(contender="cubic", rtt_us=rtt) for rtt in rtts_us)
    return Cell.model_validate({"name": "x", "flows": flows, "hops": [Hop(down=SHAPED)], "seconds": 60} | more)


def delays(asked: Cell) -> dict[str, str]:
    """Where netem is, and its delay."""
    return {
        f"{space} {line.split()[5]}": line.split("delay ")[1]
        for line in simulated_job.plan(asked, 1).splitlines()
        if " netem " in line and (space := line.split()[1])
    }


def test_each_half_of_the_rtt_is_at_one_end_of_the_hosts_link() -> None:
    assert delays(cell(20_001)) == {"host0 eth0": "10ms", "hop0 wan": "10001us"}
    assert delays(cell(0)) == {}
    several = delays(cell(10_000, 160_000, 10_000))
    assert several == {"host0 eth0": "5ms", "switch port0": "5ms", "host1 eth0": "80ms", "switch port1": "80ms"}


def test_the_senders_of_a_cell_are_paced_as_asked() -> None:
    def hosts(asked: Cell) -> list[str]:
        return [line for line in simulated_job.plan(asked, 1).splitlines() if line.startswith("host ")]

    assert hosts(cell(20_000)) == ["host host0 3", "host receiver 3"]
    assert hosts(cell(20_000, pacing_percent=(100, 40))) == ["host host0 3 100 40", "host receiver 3 100 40"]


def test_a_delay_never_shares_a_device_with_a_queue() -> None:
    both = cell(20_000, hops=[Hop(down=SHAPED, up=SHAPED)])
    assert delays(both) == {"host0 eth0": "10ms", "switch port0": "10ms"}
    ipsec = cell(20_000, hops=[Hop(down=SHAPED, up=SHAPED)], tunnel="ipsec")
    assert "switch" not in simulated_job.network(ipsec).spaces


def test_the_chain_is_routed_both_ways() -> None:
    chain = cell(20_000, hops=[Hop(), Hop(down=SHAPED), Hop()])
    assert simulated_job.network(chain).spaces == ["host0", "hop0", "hop1", "hop2", "receiver"]
    middle = simulated_job.addresses(chain, "hop1")
    assert "route add 10.42.1.0/24 via 10.43.1.2" in middle and "route add 10.42.2.0/24 via 10.43.0.1" in middle
    macs = [line.split(" lladdr ")[1].split()[0] for line in middle if "neighbour" in line]
    made = "\n".join(simulated_job.devices(chain))
    assert len(set(macs)) == 2 and all(mac in made for mac in macs)


@pytest.mark.parametrize(("version", "bits"), [(4, (24, 24, 30)), (6, (64, 64, 64))])
def test_every_address_is_of_the_version_and_reached_by_a_neighbour(version: IpVersion, bits: tuple[int, ...]) -> None:
    asked = cell(80_000, 10_000, hops=[Hop(down=SHAPED, up=SHAPED), Hop()], ip_version=version)
    net, reached = simulated_job.network(asked), set[Any]()
    own = {end.space: ip_interface(end.address) for link in net.links for end in link if end.address}
    assert {it.network.prefixlen for it in own.values()} == {*bits} and {it.version for it in own.values()} == {version}
    for space in (it for it in net.spaces if it != simulated_job.SWITCH):
        lines = simulated_job.addresses(asked, space)
        nets = [ip_interface(line.split()[2]).network for line in lines if line.startswith("address add")]
        for via in (ip_address(line.split()[-1]) for line in lines if line.startswith("route add")):
            assert any(via in its for its in nets), (space, via)
        reached |= {ip_address(line.split()[2]) for line in lines if line.startswith("neighbour")}
    assert {it.ip for it in own.values()} <= reached
    assert ("disable_ipv6" in simulated_job.job(asked, 1)) == (version == 6)
    assert simulated_job.plan(asked, 1).splitlines()[0].endswith(f" {version}")


def test_tunnels_are_ipv4() -> None:
    with pytest.raises(ValueError, match="tunnels, and middleboxes that change the ECN field, are IPv4 only"):
        cell(10_000, tunnel="ipsec", ip_version=6)


def test_the_seed_sets_the_start_order_and_nothing_else() -> None:
    asked = cell(20_000, 20_000, 20_000)
    first, again, other = (simulated_job.starts(asked, seed) for seed in (1, 1, 2))
    assert first == again != other and all(0 <= start <= simulated_job.START_SPREAD_S for start in first + other)
    rest = [[line for line in simulated_job.plan(asked, seed).splitlines() if line[:4] != "flow"] for seed in (1, 2)]
    assert rest[0] == rest[1]


def test_steps_come_in_the_order_of_their_times() -> None:
    hops = [
        Hop(down=SHAPED, schedule=[RateStep(at_s=20, rate_bps=10_000_000), RateStep(at_s=40, rate_bps=50_000_000)]),
        Hop(down=SHAPED, up=SHAPED, schedule_up=[RateStep(at_s=30, rate_bps=5_000_000)]),
    ]
    lines = [line.split() for line in simulated_job.plan(cell(0, hops=hops), 1).splitlines() if line.startswith("step")]
    assert [(line[1], line[2], line[6]) for line in lines] == [
        (f"{t}000000000", hop, dev) for t, hop, dev in ((20, "hop0", "lan"), (30, "hop1", "wan"), (40, "hop0", "lan"))
    ]


def test_short_flows_have_the_lengths_and_gaps_asked_for() -> None:
    asked = ShortFlows(rtt_us=0, count=20_000, mean_gap_s=0.2, p5_bytes=65_536, p95_bytes=2_097_152)
    found = simulated_job.arrivals(asked, seed=1, seconds=1e6)
    cuts = quantiles([size for _, size in found], n=20)
    assert cuts[0] == pytest.approx(65_536, rel=0.05) and cuts[-1] == pytest.approx(2_097_152, rel=0.05)
    gaps = [b - a for (a, _), (b, _) in pairwise(found)]
    assert sum(gaps) / len(gaps) == pytest.approx(0.2e9, rel=0.03)
    assert median(gaps) == pytest.approx(0.2e9 * 0.6931, rel=0.05)
    assert (
        found
        == simulated_job.arrivals(asked, seed=1, seconds=1e6)
        != simulated_job.arrivals(asked, seed=2, seconds=1e6)
    )
    assert all(at < 60e9 for at, _ in simulated_job.arrivals(asked, seed=1, seconds=60))


@pytest.mark.parametrize("remember", [False, True])
def test_short_flows_are_fetched_from_the_host_of_their_path(remember: bool) -> None:
    short = ShortFlows(contender="cubic-noecn", rtt_us=40_000, count=3, remember_ssthresh=remember)
    lines = simulated_job.plan(cell(20_000, short_flows=short), 1).splitlines()
    (line,) = (line.split() for line in lines if line.startswith("short"))
    assert line[1:] == ["host1", "receiver", "10.42.2.21", "5100", "cubic", "0", str(int(remember))]
    assert sum(line.startswith("transfer") for line in lines) == 3


@pytest.mark.parametrize("offloads", [False, True])
def test_offloads_stay_only_where_asked(offloads: bool) -> None:
    asked = cell(20_000).model_copy(update={"offloads": offloads})
    lines = [line for line in simulated_job.plan(asked, 1).splitlines() if line.startswith("device")]
    assert lines and all(line.endswith(f" {int(offloads)}") for line in lines)


def test_captures_are_of_the_outermost_devices_and_change_nothing_else() -> None:
    asked = cell(20_000, 80_000)
    captured = [
        "tap receiver eth0 client.pcapng 0 0",
        "tap hop0 wan server.pcapng 0 0",
    ]
    with_captures = simulated_job.plan(asked, 1, pcap=True).splitlines()
    assert [line for line in with_captures if line.startswith("tap")] == captured
    assert [line for line in with_captures if line not in captured] == simulated_job.plan(asked, 1).splitlines()


def test_the_counters_of_every_end_are_kept() -> None:
    script = simulated_job.job(cell(20_000, 80_000), 1).splitlines()
    for end in ("host0", "host1", "receiver"):
        assert f"ip netns exec {end} cat {' '.join(nstat.FILES)} >counters-{end}" in script


def test_flows_that_are_no_tcp_keep_their_numbers_and_are_tapped_at_both_ends() -> None:
    asked = cell(
        seconds=10,
        per_packet=True,
        flows=[
            Flow(contender="udp-ect1", rtt_us=20_000, rate_bps=12_112_000, start_s=1, stop_s=2),
            Flow(contender="cubic", rtt_us=20_000),
            Flow(contender="quic-cubic", rtt_us=20_000),
        ],
    )
    lines = simulated_job.plan(asked, 1).splitlines()
    udp, tcp, quic = (
        next(line for line in lines if line.startswith(f"{kind} ")) for kind in ("datagrams", "flow", "program")
    )
    assert [lines.index(line) for line in (udp, tcp, quic)] == sorted(lines.index(line) for line in (udp, tcp, quic))
    words = udp.split()
    # 1514 bytes of 8 bit at 12.112 Mbit/s are a millisecond.
    assert words[1:9] == ["host0", "receiver", "10.42.1.20", "5201", "40000", "1", "1472", "1000000"]
    assert words[10] == "2000000000"
    head, sender = quic.split("\t")
    assert head.split()[:4] == ["program", "host0", "receiver", "5203"]
    assert head.endswith(" ./quic-cubic receive 10.42.1.20 5203")
    assert sender == "./quic-cubic send 10.42.1.20 5203 40002 cubic"
    assert "export OPENSSL_ia32cap" in simulated_job.job(asked, 1)
    taps = [line.split() for line in lines if line.startswith("tap")]
    assert [tap[1:6] for tap in taps] == [
        ["host0", "eth0", "tap-host0.pcapng", "5201", "5203"],
        ["receiver", "eth0", "tap-receiver.pcapng", "5201", "5203"],
    ]


def test_a_hop_of_slots_has_them_as_root_before_its_queue_and_is_read_back() -> None:
    link = Slots(mean_mbps=5, seconds=5)
    asked = cell(20_000, hops=[dumbbell.slotted(link, "fq_codel")], seconds=5)
    script = simulated_job.job(asked, 1)
    assert "cat slots-hop0 >/proc/slots\ntc -n hop0 qdisc add dev lan root handle 1: slots\n" in script
    assert "tc hop0 qdisc add dev lan parent 1:1 handle 10: fq_codel" in script
    assert "hop0 class add dev lan" not in script and "hop0 class add dev wan" in script
    assert script.rstrip().endswith("ip netns exec hop0 cat /proc/slots >seen-slots-hop0")


def test_up_flows_and_probes_go_between_the_right_ends() -> None:
    asked = cell(
        flows=[Flow(contender="dctcp", rtt_us=80_000, start_s=5, stop_s=9, up=True)],
        probes=[Probe(rtt_us=80_000, ecn="ect1", interval_s=0.01)],
        call=Call(bitrate_bps=2_000_000, ecn="ect1", rtt_us=80_000),
    )
    lines = simulated_job.plan(asked, 1).splitlines()
    flow = next(line.split() for line in lines if line.startswith("flow"))
    assert flow[1:8] == ["receiver", "host0", "10.42.2.20", "5201", "40000", "dctcp", "1"] and flow[9] == "9000000000"
    assert next(line for line in lines if line.startswith("probe")).startswith(
        "probe host0 receiver 10.42.1.20 2200 1 "
    )
    talks = [line.split()[1:] for line in lines if line.startswith("talk")]
    down, up = ([int(word) if word.isdigit() else word for word in talk] for talk in talks)
    assert down[:5] == ["host0", "receiver", "10.42.1.20", 5150, 1] and up[:3] == ["receiver", "host0", "10.42.2.20"]
    frame, every, key = down[7:]
    # 2 Mbit/s in 30 frames a second: 8333 bytes in the mean.
    assert (frame * (every - 1) + key) / every == pytest.approx(2e6 / 8 / 30, rel=1e-3) and key > frame


def test_a_mangler_may_be_for_some_flows() -> None:
    job = simulated_job.job(cell(0, 0, hops=[Hop(mangle="to-ect1", mangled_flows=[1]), Hop(down=SHAPED)]), 1)
    assert 'iifname "wan" tcp sport { 40001 } tcp flags & syn == 0 ip ecn != ce ip ecn set ect1;' in job
    job = simulated_job.job(cell(0, 0, hops=[Hop(mangle="to-not-ect", mangled_flows=[0]), Hop(down=SHAPED)]), 1)
    assert 'iifname "wan" tcp sport { 40000 } ip ecn set not-ect;' in job


def test_a_hosts_flows_may_share_a_queue_and_a_port_be_chosen() -> None:
    flows = [Flow(contender="cubic", rtt_us=0), Flow(contender="cubic", rtt_us=0, from_port=40777)]
    hop = Hop(
        down=SHAPED.model_copy(update={"qdisc": parse_qdisc("fq_codel")}),
        host_queue=True,
        mangle="to-ect1",
        mangled_flows=[1],
    )
    job = simulated_job.job(cell(flows=flows, hops=[hop]), 1)
    assert "filter add dev lan parent 10: protocol ip prio 1 flower dst_ip 10.42.1.20 classid 10:1" in job
    assert "tcp sport { 40777 }" in job and " 5202 40777 cubic " in job


def test_tunnels_of_devices_are_made_by_both_gateways() -> None:
    job = simulated_job.job(cell(20_000, hops=[Hop(), Hop(down=SHAPED), Hop()], tunnel="wireguard"), 1).splitlines()
    made = [line for line in job if "wg set" in line]
    assert [line.split()[3] for line in made] == ["near", "far"] and "peer $(wg pubkey </run/far.key)" in made[0]
    assert "ip netns exec near ip route replace 10.42.1.0/24 dev sojourn" in job
    assert "ip netns exec far ip route replace 10.42.2.0/24 dev sojourn" in job
    assert "link set dev eth0 mtu 1420" in job


def test_a_paced_flow_and_the_senders_own_queue_are_planned() -> None:
    flow = Flow(contender="cubic", rtt_us=0, pacing_bps=40_000_000)
    asked = cell(flows=[flow, Flow(contender="cubic", rtt_us=0)], sender_queue="fq")
    lines = simulated_job.plan(asked, 1).splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("flow"))
    assert lines[at + 1] == "pace 5000000" and sum(line.startswith("pace") for line in lines) == 1
    assert "tc host0 qdisc add dev eth0 root handle 1: fq" in lines
    with pytest.raises(ValueError, match="sender_queue"):
        cell(20_000, sender_queue="fq")


def test_iperf3_cannot_mix_flows_with_and_without_ecn_on_a_host() -> None:
    flows = [Flow(contender=name, rtt_us=0) for name in ("cubic", "cubic-noecn")]
    with pytest.raises(ValueError, match="with and without ECN"):
        simulated_job.job(cell(flows=flows), 1, iperf3=True)
    assert "iperf3" not in simulated_job.job(cell(flows=flows), 1)


def test_a_missing_queue_is_told_with_its_place() -> None:
    empty = {space: "[]\n" * (1 + 3 * devices) for space, devices in (("host0", 1), ("hop0", 2))}
    found = simulated_job.differences(cell(20_000), empty)
    assert "hop0: lan: asked htb 1: as root, found no qdisc" in found
    assert "host0: eth0: asked netem 1: as root, found no qdisc" in found
    assert "hop0: lan: asked dualpi2 10: below 1:10" in str(ReadbackError(found))


def test_queue_samples_are_told_by_hop_and_device() -> None:
    qdiscs = [{"kind": "htb", "dev": "lan"}, {"kind": "netem", "dev": "wan"}, {"kind": "noqueue", "dev": "lo"}]
    lines = list(simulated.queues(f"0.000000 hop1 {json.dumps(qdiscs)}\n"))
    assert lines == [
        {"t": 0.0, "hop": 1, "dev": "lan", "qdiscs": qdiscs[:1]},
        {"t": 0.0, "hop": 1, "dev": "wan", "qdiscs": qdiscs[1:2]},
    ]


def test_iperf3_intervals_become_rows() -> None:
    state = {"rtt": 20_500, "retransmits": 2, "snd_cwnd": 14_480}
    sender = {"intervals": [{"streams": [state]}, {"streams": [state | {"rtt": 20_100}]}]}
    receiver = {"intervals": [{"sum": {"end": 0.1}, "streams": [{"bytes": 1000}]},
                              {"sum": {"end": 0.2}, "streams": [{"bytes": 500}]}]}  # fmt: skip
    assert list(simulated.iperf3_rows(3, 1.5, sender, receiver)) == [
        "1.600000,3,1000,20500,20500,10,2,,,,",
        "1.700000,3,1500,20100,20100,10,4,,,,",
    ]
