# SPDX-License-Identifier: Apache-2.0
"""From a cell to the job of a simulated node: its namespaces, links, routes, queues and traffic. Pure.

::

    host0 ─┐                                                            one host for each RTT
    host1 ─┴ [switch] ─ [near] ─ wan·hop0·lan ─ wan·hop1·lan ─ [far] ─ receiver      near, far: ends of a tunnel

A host's packets are delayed by half its RTT where they leave it, and those to it by the rest at the other end of its
link, so no queue that is measured is also a delay: the switch is there where they would meet, and for several hosts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from bottleneck import impairment, readback, shaper, slots
from bottleneck.impairment import Impairment
from bottleneck.spec import IFB_DOWN, IFB_UP, Direction
from hardware.machine.ip import IpVersion
from hardware.node import mac
from hardware.simulation import NO_RDRAND
from harness.matrix.cell import UNRESPONSIVE, Call, Cell, Flow, Hop, ShortFlows
from traffic import nstat, ports, tunnel, web
from traffic.contender import ACCURATE_ECN, CONTENDERS, NO_ECN
from traffic.irtt import TOS
from traffic.program import PROGRAMS
from traffic.talk import Schedule
from traffic.tunnel import ProgramKind, TunnelEnd

RECEIVER, SWITCH, NEAR, FAR = "receiver", "switch", "near", "far"
HOST_DEV = "eth0"
START_SPREAD_S = 0.01
"""What a flow starts later than asked is drawn from 0 to this, so that the seed is a start order and a phase too."""
UDP_PAYLOAD = 1472
"""Bytes in a packet of an unresponsive flow, which make it one of 1500."""
SLOTS = "/proc/slots"
COUNTERS = "counters-"
"""What the files begin with that have the counters of a namespace."""
IPSEC_MTU = 1400
"""Bytes of the largest packet inside ESP."""
_NS = 1_000_000_000
#: ECN is not agreed on by a SYN that is ECT itself (RFC 3168, 6.1.1).
_NO_SYN = "tcp flags & syn == 0 "
#: What all namespaces inherit: it is there, at once, with the addresses that are given alone.
_OVER_IPV6 = {
    "all/forwarding": 1, "default/accept_dad": 0, "default/addr_gen_mode": 1, "default/disable_ipv6": 0,
    "all/disable_ipv6": 0,
}  # fmt: skip


@dataclass(frozen=True)
class NetworkPort:
    """One end of a link."""

    space: str
    dev: str
    address: str = ""

    @property
    def mac(self) -> str:
        return mac(self.space, self.dev)

    @property
    def ip(self) -> str:
        return _bare(self.address)


@dataclass(frozen=True)
class Numbering:
    """Templates of an IP version's addresses: in a net by a number (0: the net), on a link by its own and an end's."""

    hosts: str
    receiver: str
    links: str


NUMBERINGS: Mapping[IpVersion, Numbering] = {
    4: Numbering("10.42.2.{}/24", "10.42.1.{}/24", "10.43.{}.{}/30"),
    6: Numbering("fd42:2::{}/64", "fd42:1::{}/64", "fd42:3:{}::{}/64"),
}


@dataclass(frozen=True)
class Network:
    """Where everything of a cell stands."""

    hosts: dict[int, NetworkPort]
    """By RTT, µs: the hosts of the server side."""
    receiver: NetworkPort
    boxes: tuple[str, ...]
    """Routers from the hosts to the receiver, gateways of a tunnel among them."""
    links: tuple[tuple[NetworkPort, NetworkPort], ...]
    numbers: Numbering

    @property
    def spaces(self) -> list[str]:
        """All namespaces, in the order of the packets that go down."""
        return list(dict.fromkeys(end.space for link in self.links for end in link))


def hop_name(index: int) -> str:
    """The namespace of the hop at `index`, from 0."""
    return f"hop{index}"


def network(cell: Cell) -> Network:
    """Return hosts, routers and links of `cell`, addressed."""
    wanted = [flow.rtt_us for flow in cell.flows] + [probe.rtt_us for probe in cell.probes]
    wanted += [one.rtt_us for one in (cell.short_flows, cell.call) if one]
    numbers = NUMBERINGS[cell.ip_version]
    hosts = {
        rtt: NetworkPort(f"host{n}", HOST_DEV, numbers.hosts.format(20 + n))
        for n, rtt in enumerate(sorted(dict.fromkeys(wanted)))
    }
    hops = tuple(hop_name(n) for n in range(len(cell.hops)))
    boxes = (NEAR, *hops, FAR) if cell.tunnel else hops
    first = NetworkPort(boxes[0], "wan", numbers.hosts.format(1))
    receiver = NetworkPort(RECEIVER, HOST_DEV, numbers.receiver.format(20))
    if len(hosts) == 1 and (cell.tunnel or not cell.hops[0].up):
        links = [(next(iter(hosts.values())), first)]
    else:
        links = [(host, NetworkPort(SWITCH, f"port{n}")) for n, host in enumerate(hosts.values())]
        links.append((NetworkPort(SWITCH, "uplink"), first))
    for n, (left, right) in enumerate(pairwise(boxes)):
        ends = (numbers.links.format(n, end) for end in (1, 2))
        links.append((NetworkPort(left, "lan", next(ends)), NetworkPort(right, "wan", next(ends))))
    links.append((NetworkPort(boxes[-1], "lan", numbers.receiver.format(1)), receiver))
    return Network(hosts, receiver, boxes, tuple(links), numbers)


def devices(cell: Cell) -> list[str]:
    """The `ip -batch` lines that make all namespaces and links."""
    net = network(cell)
    lines = [f"netns add {space}" for space in net.spaces]
    for a, b in net.links:
        one, other = (f"{end.dev} address {end.mac} netns {end.space}" for end in (a, b))
        lines.append(f"link add {one} type veth peer name {other}")
    return lines


def addresses(cell: Cell, space: str) -> list[str]:
    """The `ip -batch` lines inside `space`: links up, addresses, routes, neighbours, ifbs.

    Neighbours are known from the start: no packet waits for an address resolution, none is lost to it.
    """
    net = network(cell)
    ends = [end for link in net.links for end in link if end.space == space]
    lines = [f"link set dev {end.dev} up" for end in ends]
    if space == SWITCH:
        lines += ["link add bridge type bridge mcast_snooping 0", "link set dev bridge up"]
        return lines + [f"link set dev {end.dev} master bridge" for end in ends]
    if cell.tunnel and space in (RECEIVER, *(host.space for host in net.hosts.values())):
        lines.append(f"link set dev {HOST_DEV} mtu {IPSEC_MTU if cell.tunnel == 'ipsec' else tunnel.MTU[cell.tunnel]}")
    lines += [f"address add {end.address} dev {end.dev}" for end in ends]
    for end in ends:
        lines += [
            f"neighbour replace {peer.ip} lladdr {peer.mac} dev {end.dev} nud permanent" for peer in _peers(net, end)
        ]
    lines += _routes(net, space) + _ipsec(cell, net, space)
    for program, command in _bottleneck(cell, space):
        if program == "ip":
            lines.append(command)
    return lines


def _peers(net: Network, end: NetworkPort) -> list[NetworkPort]:
    entry = NetworkPort(net.boxes[0], "wan", net.numbers.hosts.format(1))
    if end == entry:
        return list(net.hosts.values())
    if end in net.hosts.values():
        return [entry]
    return [b if a == end else a for a, b in net.links if end in (a, b)]


def _routes(net: Network, space: str) -> list[str]:
    numbers = net.numbers
    if space not in net.boxes:
        side = numbers.receiver if space == RECEIVER else numbers.hosts
        return [f"route add default via {_bare(side.format(1))}"]
    at, last = net.boxes.index(space), len(net.boxes) - 2
    # The far links too: a tunnel's ends stand on them.
    beyond = numbers.receiver.format(0), numbers.links.format(last, 0)
    down = [f"route add {to} via {_bare(numbers.links.format(at, 2))}" for to in beyond] if at <= last else []
    before = numbers.hosts.format(0), numbers.links.format(0, 0)
    up = [f"route add {to} via {_bare(numbers.links.format(at - 1, 1))}" for to in before] if at else []
    return [*down[: 2 if at < last else 1], *up[: 2 if at > 1 else 1]]


def _openvpn(kind: ProgramKind, near: TunnelEnd, far: TunnelEnd) -> Iterator[str]:
    """The shell's lines that start both ends of OpenVPN, wait until they are ready and lead through them."""
    near, far = (replace(end, key_file="/run/openvpn.key") for end in (near, far))
    if kind == "openvpn":
        yield f"openvpn --genkey secret {near.key_file}"
    for space, mine, other in ((NEAR, near, far), (FAR, far, near)):
        yield f"ip netns exec {space} {' '.join(tunnel.openvpn(kind, mine, other))} >/run/{space}.log 2>&1 &"
    for space, other in ((NEAR, far), (FAR, near)):
        yield (
            f"n=0; until grep -q '{tunnel.UP}' /run/{space}.log; do "
            f"n=$((n + 1)); [ $n -lt 100 ] || {{ cat /run/{space}.log >&2; exit 1; }}; sleep 0.1; done"
        )
        yield f"ip -n {space} route replace {other.beyond} dev {tunnel.DEVICE}"


def _gateways(net: Network) -> tuple[tuple[str, str], tuple[str, str]]:
    """The address of each end of a tunnel, near and far, and the net behind it."""
    near, far = (_bare(net.numbers.links.format(*at)) for at in ((0, 1), (len(net.boxes) - 2, 2)))
    return (near, net.numbers.hosts.format(0)), (far, net.numbers.receiver.format(0))


def _tunnel(cell: Cell, net: Network) -> Iterator[str]:
    """The shell's lines that make a tunnel of devices between the two gateways."""
    if cell.tunnel == "" or cell.tunnel == "ipsec":
        return
    near, far = (
        TunnelEnd(outer, inner, key=f"$(wg pubkey </run/{space}.key)", key_file=f"/run/{space}.key", beyond=beyond)
        for space, inner, (outer, beyond) in zip((NEAR, FAR), (tunnel.NEAR, tunnel.FAR), _gateways(net), strict=True)
    )
    if cell.tunnel == "openvpn" or cell.tunnel == "openvpn-plain":
        yield from _openvpn(cell.tunnel, near, far)
        return
    if cell.tunnel == "wireguard":
        yield from (f"wg genkey >{end.key_file}" for end in (near, far))
    for space, mine, other in ((NEAR, near, far), (FAR, far, near)):
        for command in tunnel.commands(cell.tunnel, mine, other):
            yield f"ip netns exec {space} {' '.join(command)}"


REPLAY = {"down": "replay-down", "up": "replay-up"}
"""Files of what each way's receiving end of ESP says of its replay window at the end."""


def _replay(cell: Cell, net: Network) -> Iterator[str]:
    """The shell's lines that ask both ends of ESP for what they dropped."""
    if cell.tunnel == "ipsec":
        (near, _), (far, _) = _gateways(net)
        for way, space, sender in (("down", FAR, near), ("up", NEAR, far)):
            yield f"ip -n {space} -s xfrm state list src {sender} >{REPLAY[way]}"


def _ipsec(cell: Cell, net: Network, space: str) -> list[str]:
    """ESP in tunnel mode between the two gateways; the ECN field is copied out and in again (RFC 6040)."""
    if cell.tunnel != "ipsec" or space not in (NEAR, FAR):
        return []
    (near, _), (far, _) = sides = _gateways(net)
    (mine, inside), (other, outside) = sides if space == NEAR else reversed(sides)
    states = [
        f"xfrm state add src {src} dst {dst} proto esp spi {spi} reqid 1 mode tunnel "
        f"replay-window {cell.replay_window} aead rfc4106(gcm(aes)) 0x{'5a' * 20} 128"
        for spi, (src, dst) in enumerate([(near, far), (far, near)], start=256)
    ]
    template = "proto esp reqid 1 mode tunnel"
    policies = [f"xfrm policy add src {inside} dst {outside} dir out tmpl src {mine} dst {other} {template}"] + [
        f"xfrm policy add src {outside} dst {inside} dir {way} tmpl src {other} dst {mine} {template}"
        for way in ("in", "fwd")
    ]
    return [*states, *policies]


def _delays(cell: Cell) -> Iterator[tuple[NetworkPort, Impairment]]:
    """Where each half of each host's RTT is added: at the egress of both ends of its link."""
    net = network(cell)
    for rtt, host in net.hosts.items():
        peer = next(b for a, b in net.links if a == host)
        for end, delay_us in ((host, rtt // 2), (peer, rtt - rtt // 2)):
            if delay_us:
                yield end, Impairment(delay_us=delay_us)


def _queueing(cell: Cell) -> list[NetworkPort]:
    """The hosts' devices that have a qdisc of their own."""
    return list(network(cell).hosts.values()) if cell.sender_queue else []


def _ways(hop: Hop) -> Iterator[tuple[Direction | None, str, str, str]]:
    """Both directions of `hop`: what is asked, egress, ingress and its ifb."""
    yield hop.down, "lan", "wan", IFB_DOWN
    yield hop.up, "wan", "lan", IFB_UP


def _bottleneck(cell: Cell, space: str) -> Iterator[tuple[str, str]]:
    """The queues and delays of `space`: program (ip or tc) and its command."""
    commands: list[list[str]] = []
    for end, delay in _delays(cell):
        if end.space == space:
            commands.append([*f"tc qdisc add dev {end.dev} root handle 1:".split(), *delay.tc_args()])
    commands += [
        f"tc qdisc add dev {end.dev} root handle 1: {cell.sender_queue}".split()
        for end in _queueing(cell)
        if end.space == space
    ]
    for n, hop in enumerate(cell.hops):
        if hop_name(n) == space:
            for way, egress, ingress, ifb in _ways(hop):
                if way:
                    commands += impairment.commands(ingress, ifb, way.path)
                if way and hop.slots and way is hop.down:
                    # Its root is made beside its schedule, see job.
                    commands += slots.commands(egress, way.qdisc.tc_args())[1:]
                elif way:
                    commands += shaper.commands(egress, way.rate_bps, way.qdisc, unshaped=False)
            if hop.host_queue:
                commands.append(shaper.one_queue("lan", network(cell).receiver.ip))
    for command in commands:
        yield command[0], " ".join(command[1:])


def differences(cell: Cell, answers: dict[str, str]) -> list[str]:
    """Compare what each namespace's tc says to readback.queries with what the cell asks for: a line for each."""
    lines: list[tuple[str, list[str]]] = []
    states = {space: readback.state(text, *shown(cell, space)) for space, text in answers.items()}
    for end, delay in _delays(cell):
        lines.append((end.space, readback.netem(end.dev, delay, states[end.space])))
    for end in _queueing(cell):
        lines.append((end.space, readback.root(end.dev, cell.sender_queue, states[end.space])))
    for n, hop in enumerate(cell.hops):
        state = states[hop_name(n)]
        for way, egress, ingress, ifb in _ways(hop):
            lines.append((hop_name(n), readback.delayed(ingress, ifb, way.path if way else Impairment(), state)))
            if way and hop.slots and way is hop.down:
                lines.append((hop_name(n), readback.slotted(egress, way.qdisc, state)))
            elif way:
                lines.append((hop_name(n), readback.shaped(egress, way, state, unshaped=False)))
    return [f"{space}: {line}" for space, differing in lines for line in differing]


def shown(cell: Cell, space: str) -> list[str]:
    """The devices of `space` whose configuration is read back."""
    return [end.dev for link in network(cell).links for end in link if end.space == space]


def arrivals(short: ShortFlows, seed: int, seconds: float) -> list[tuple[int, int]]:
    """Return the time (ns) and length (bytes) of each short flow before `seconds` (s), see `traffic.web.arrivals`."""
    drawn = web.arrivals(
        f"short {seed}", short.start_s, mean_gap_s=short.mean_gap_s, p5_bytes=short.p5_bytes, p95_bytes=short.p95_bytes
    )
    return [(round(at * _NS), size) for at, size in islice(drawn, short.count) if at < seconds]


def starts(cell: Cell, seed: int) -> list[float]:
    """When each flow starts, s: as asked and up to START_SPREAD_S later, as the seed says."""
    draw = random.Random(f"start {seed}")
    return [round(flow.start_s + draw.uniform(0, START_SPREAD_S), 6) for flow in cell.flows]


def plan(cell: Cell, seed: int, *, flows: bool = True, pcap: bool = False) -> str:
    """Return the text for the program of traffic/endpoints.c (traffic/endpoints.py tells its form).

    Args:
        flows: whether it sends the bulk flows too, or another program does.
        pcap: whether both ends are captured, see `captured`.
    """
    net = network(cell)
    lines = [f"cell {_ns(cell.seconds)} {_ns(cell.sample_s)} {cell.ip_version}"]
    modes = {} if flows else _ecn_modes(cell, net)
    pacing = "".join(f" {percent}" for percent in cell.pacing_percent or ())
    lines += [
        f"host {end.space} {modes.get(end.space, ACCURATE_ECN)}{pacing}" for end in (*net.hosts.values(), net.receiver)
    ]
    lines += [f"device {end.space} {end.dev} {int(cell.offloads)}" for link in net.links for end in link]
    for space in net.spaces:
        commands = [command for program, command in _bottleneck(cell, space) if program == "tc"]
        lines += [f"tc {space} {command}" for command in commands]
        if commands or space.startswith("hop"):
            lines += [f"show {space} {query}" for query in readback.queries(*shown(cell, space))]
    lines += [f"queues {hop_name(n)}" for n in range(len(cell.hops))]
    steps = [
        (step.at_s, hop_name(n), " ".join(shaper.rate_change(dev, step.rate_bps)[1:]))
        for n, hop in enumerate(cell.hops)
        for dev, schedule in (("lan", hop.schedule), ("wan", hop.schedule_up))
        for step in schedule
    ]
    lines += [f"step {_ns(at)} {space} {command}" for at, space, command in sorted(steps)]
    offset = random.Random(f"probe {seed}")
    for n, probe in enumerate(cell.probes):
        first = offset.uniform(0, probe.interval_s)
        where = f"{net.hosts[probe.rtt_us].space} {RECEIVER} {net.receiver.ip} {ports.PROBE + n} {TOS[probe.ecn]}"
        lines.append(f"probe {where} {_ns(first)} {_ns(probe.interval_s)} {int(probe.round_trip)}")
    if cell.call:
        lines += _talks(cell.call, net, offset)
    if short := cell.short_flows:
        contender = CONTENDERS[short.contender]
        server = net.hosts[short.rtt_us]
        where = f"{server.space} {RECEIVER} {server.ip} {ports.SHORT}"
        lines.append(f"short {where} {contender.cc} {contender.tcp_ecn} {int(short.remember_ssthresh)}")
        lines += [f"transfer {at} {size}" for at, size in arrivals(short, seed, cell.seconds)]
    if cell.per_packet:
        lines += _taps(cell, net)
    if pcap:
        lines += [f"tap {end.space} {end.dev} {capture_name(side)} 0 0" for side, end in captured(cell).items()]
    if flows:
        lines += list(_flows(cell, net, starts(cell, seed)))
    return "".join(f"{line}\n" for line in lines)


def _talks(call: Call, net: Network, draw: random.Random) -> Iterator[str]:
    """The talkers of a call: down first."""
    host, receiver = net.hosts[call.rtt_us], net.receiver
    schedule = Schedule(bitrate_bps=call.bitrate_bps)
    frame_s = 1 / schedule.fps
    for n, (sender, listener) in enumerate([(host, receiver), (receiver, host)]):
        yield (
            f"talk {sender.space} {listener.space} {listener.ip} {ports.TALK + n} {TOS[call.ecn]} "
            f"{_ns(draw.uniform(0, frame_s))} {_ns(frame_s)} "
            f"{schedule.frame_bytes(1)} {schedule.key_every} {schedule.frame_bytes(0)}"
        )


def _ecn_modes(cell: Cell, net: Network) -> dict[str, int]:
    """The ECN mode that all flows of a sending host share with iperf3, which is the highest that one of them needs."""
    modes: dict[str, int] = {}
    for flow in cell.flows:
        mode, space = CONTENDERS[flow.contender].tcp_ecn, (net.receiver if flow.up else net.hosts[flow.rtt_us]).space
        if (modes.get(space, mode) == NO_ECN) != (mode == NO_ECN):
            raise ValueError(f"cell {cell.name}: with iperf3 flows with and without ECN cannot share a host")
        modes[space] = max(mode, modes.get(space, mode))
    return modes


def _flows(cell: Cell, net: Network, begins: Sequence[float]) -> Iterator[str]:
    for n, (flow, start) in enumerate(zip(cell.flows, begins, strict=True)):
        ends = (net.hosts[flow.rtt_us], net.receiver)
        sender, receiver = reversed(ends) if flow.up else ends
        if flow.contender not in CONTENDERS:
            yield _no_tcp(n, flow, sender, receiver, f"{_ns(start)} {_ns(flow.stop_s or cell.seconds)}")
            continue
        contender = CONTENDERS[flow.contender]
        yield (
            f"flow {sender.space} {receiver.space} {receiver.ip} {ports.BULK + n} {from_port(n, flow)} "
            f"{contender.cc} {contender.tcp_ecn} {_ns(start)} {_ns(flow.stop_s or cell.seconds)}"
        )
        if flow.pacing_bps:
            yield f"pace {flow.pacing_bps // 8}"


def _no_tcp(n: int, flow: Flow, sender: NetworkPort, receiver: NetworkPort, times: str) -> str:
    """The line of a flow that the kernel's TCP does not send: of unresponsive packets, or a program's."""
    port, ends = ports.BULK + n, f"{sender.space} {receiver.space}"
    if flow.rate_bps:
        gap = round(slots.FRAME_BYTES * 8 * _NS / flow.rate_bps)
        tos = TOS[UNRESPONSIVE[flow.contender]]
        return f"datagrams {ends} {receiver.ip} {port} {from_port(n, flow)} {tos} {UDP_PAYLOAD} {gap} {times}"
    commands = PROGRAMS[flow.contender].commands(f"./{flow.contender}", receiver.ip, port, from_port(n, flow))
    return f"program {ends} {port} {times} " + "\t".join(commands)


def capture_name(side: str) -> str:
    """The file of what was captured on a side."""
    return f"{side}.pcapng"


def tap_name(space: str) -> str:
    """The file of what the device of a host or of the receiver saw."""
    return f"tap-{space}.pcapng"


def _taps(cell: Cell, net: Network) -> Iterator[str]:
    """Taps where packets enter the path, behind their delay's first half, and where they leave it."""
    for end in (*net.hosts.values(), net.receiver):
        last = ports.BULK + len(cell.flows) - 1
        yield f"tap {end.space} {end.dev} {tap_name(end.space)} {ports.BULK} {last}"


def captured(cell: Cell) -> dict[str, NetworkPort]:
    """The device whose packets are captured, by the side: the receiver's, and where the hosts' links end."""
    net = network(cell)
    return {"client": net.receiver, "server": NetworkPort(net.boxes[0], "wan")}


def slots_file(space: str) -> str:
    """The file of a hop's schedule."""
    return f"slots-{space}"


def _slots(cell: Cell) -> list[str]:
    """The shell's lines that give each hop of slots its schedule and the qdisc that follows it."""
    root = " ".join(slots.commands("lan", ())[0][1:])
    return [f"cat {slots_file(space)} >{SLOTS}\ntc -n {space} {root}" for space, _ in _slotted(cell)]


def _slotted(cell: Cell) -> list[tuple[str, Hop]]:
    return [(hop_name(n), hop) for n, hop in enumerate(cell.hops) if hop.slots]


def from_port(n: int, flow: Flow) -> int:
    """The TCP port that flow number `n` is sent from."""
    return flow.from_port or ports.FIRST_SENDER + n


def _bare(address: str) -> str:
    return address.partition("/")[0]


def _ns(seconds: float) -> int:
    return round(seconds * _NS)


def job(cell: Cell, seed: int, *, iperf3: bool = False, pcap: bool = False) -> str:
    """Return the shell script that makes the network and runs the traffic in it.

    With `iperf3` that sends the bulk flows, each end's JSON in `sender-N` and `receiver-N`. The ends' own counters of
    TCP and IP go to `counters-NAMESPACE`.
    """
    net = network(cell)
    parts = ["#!/bin/sh", "set -e", "echo 1 >/proc/sys/net/core/devconf_inherit_init_net"]
    if cell.ip_version == 6:
        parts += [f"echo {value} >/proc/sys/net/ipv6/conf/{name}" for name, value in _OVER_IPV6.items()]
    parts.append(_batch("ip -batch -", devices(cell)))
    parts += [_batch(f"ip -n {space} -batch -", addresses(cell, space)) for space in net.spaces]
    parts += _tunnel(cell, net)
    mangled = [(hop_name(n), hop) for n, hop in enumerate(cell.hops) if hop.mangle]
    parts += [_batch(f"ip netns exec {space} nft -f -", _mangle(cell, hop)) for space, hop in mangled]
    parts += _slots(cell)
    traffic = plan(cell, seed, flows=not iperf3, pcap=pcap).splitlines()
    if any(flow.contender in PROGRAMS for flow in cell.flows):
        parts.append(f"export {NO_RDRAND}")
    if iperf3:
        servers, clients = zip(*_iperf3(cell, net, starts(cell, seed)), strict=True)
        parts += [*servers, "mkfifo /tmp/ready", _batch("./bulk >/tmp/ready", traffic, "&"), "bulk=$!"]
        parts += ["read ready </tmp/ready", *clients, "wait $bulk", "wait"]
    else:
        parts.append(_batch("./bulk", traffic))
    parts += _replay(cell, net)
    ends = [end.space for end in (*net.hosts.values(), net.receiver)]
    parts += [f"ip netns exec {space} cat {' '.join(nstat.FILES)} >{COUNTERS}{space}" for space in ends]
    parts += [f"ip netns exec {space} cat {SLOTS} >seen-{slots_file(space)}" for space, _ in _slotted(cell)]
    return "\n".join([*parts, ""])


def _iperf3(cell: Cell, net: Network, begins: Sequence[float]) -> Iterator[tuple[str, str]]:
    """The server of each flow, and its client that waits for its time."""
    every = max(0.1, cell.sample_s)  # iperf3 takes no shorter interval
    for n, (flow, start) in enumerate(zip(cell.flows, begins, strict=True)):
        ends = (net.hosts[flow.rtt_us], net.receiver)
        sender, receiver = reversed(ends) if flow.up else ends
        seconds = max(1, round((flow.stop_s or cell.seconds) - flow.start_s))
        yield (
            f"ip netns exec {receiver.space} iperf3 -s -1 -p {ports.BULK + n} -i {every:g} -J >receiver-{n} &",
            f"(sleep {start:.6f}; exec ip netns exec {sender.space} iperf3 -c {receiver.ip} -p {ports.BULK + n} "
            f"--cport {from_port(n, flow)} -C {CONTENDERS[flow.contender].cc} -t {seconds} -i {every:g} -J "
            f"--fq-rate {flow.pacing_bps or 0} "
            f">sender-{n}) &",
        )


def _mangle(cell: Cell, hop: Hop) -> list[str]:
    """The nftables rules of what `hop` does to the ECN field of packets that go down."""
    what = {
        "ect1-to-not-ect": "ip ecn ect1 ip ecn set not-ect",
        "to-ect1": f"{_NO_SYN}ip ecn != ce ip ecn set ect1",
        "to-not-ect": "ip ecn set not-ect",
    }[hop.mangle]
    numbers = ", ".join(str(from_port(n, cell.flows[n])) for n in hop.mangled_flows)
    which = f"tcp sport {{ {numbers} }} " if numbers else ""
    chain = "chain forward { type filter hook forward priority mangle;"
    return ["table ip mangle {", f'{chain} iifname "wan" {which}{what}; }}', "}"]


def _batch(command: str, lines: Sequence[str], after: str = "") -> str:
    return "\n".join([f"{command} <<'END' {after}".rstrip(), *lines, "END"])
