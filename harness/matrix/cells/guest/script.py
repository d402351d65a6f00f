# SPDX-License-Identifier: Apache-2.0
"""From a cell to the script of a simulated node: its network, queues and traffic. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Hop
from sojourn.hardware.simulation import NO_RDRAND
from sojourn.harness.matrix.cells.guest import gateways, queues
from sojourn.harness.matrix.cells.guest.network import (
    HOST_DEV,
    RECEIVER,
    SWITCH,
    Network,
    devices,
    hop_name,
    network,
    peers,
    routes,
)
from sojourn.harness.matrix.cells.guest.plan import from_port, plan, starts
from sojourn.harness.matrix.cells.guest.queues import SLOTS, slots_file, slotted, start_slots
from sojourn.traffic import ports
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.program import PROGRAMS
from sojourn.traffic.spec import Flow
from sojourn.traffic.tso import SWITCH_2020

COUNTERS = "counters-"
"""Prefix of the files with the counters of a namespace."""
#: A SYN that is itself ECT does not negotiate ECN (RFC 3168, 6.1.1).
_NO_SYN = "tcp flags & syn == 0 "
#: Inherited by all namespaces: IPv6 is up at once, with the given addresses only.
_OVER_IPV6 = {
    "all/forwarding": 1, "default/accept_dad": 0, "default/addr_gen_mode": 1, "default/disable_ipv6": 0,
    "all/disable_ipv6": 0,
}  # fmt: skip


def script(cell: Cell, seed: int, *, iperf3: bool = False, pcap: bool = False) -> str:
    """Return the shell script that creates the network and runs the traffic in it.

    With `iperf3`, that program sends the bulk flows; each end's JSON is in `sender-N` and `receiver-N`.
    """
    net = network(cell)
    parts = ["#!/bin/sh", "set -e", "echo 1 >/proc/sys/net/core/devconf_inherit_init_net"]
    if cell.ip_version == 6:
        parts += [f"echo {value} >/proc/sys/net/ipv6/conf/{name}" for name, value in _OVER_IPV6.items()]
    if cell.tso_2020:
        parts.append(f"echo 1 >{SWITCH_2020}")
    parts.append(_batch("ip -batch -", devices(cell)))
    parts += [_batch(f"ip -n {space} -batch -", addresses(cell, space)) for space in net.spaces]
    parts += gateways.commands(cell, net)
    mangled = [(hop_name(n), hop) for n, hop in enumerate(cell.hops) if hop.mangle]
    parts += [_batch(f"ip netns exec {space} nft -f -", _mangle(cell, hop)) for space, hop in mangled]
    parts += start_slots(cell)
    traffic = plan(cell, seed, flows=not iperf3, pcap=pcap).splitlines()
    if any(flow.contender in PROGRAMS for flow in cell.flows):
        parts.append(f"export {NO_RDRAND}")
    if iperf3:
        servers, clients = zip(*_iperf3(cell, net, starts(cell, seed)), strict=True)
        parts += [*servers, "mkfifo /tmp/ready", _batch("./bulk >/tmp/ready", traffic, "&"), "bulk=$!"]
        parts += ["read ready </tmp/ready", *clients, "wait $bulk", "wait"]
    else:
        parts.append(_batch("./bulk", traffic))
    parts += gateways.replay_queries(cell, net)
    parts += queues.query_rates(cell)
    parts += [f"ip netns exec {space} cat {SLOTS} >seen-{slots_file(space)}" for space, _ in slotted(cell)]
    return "\n".join([*parts, ""])


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
        lines.append(f"link set dev {HOST_DEV} mtu {gateways.inner_mtu(cell.tunnel)}")
    lines += [f"address add {end.address} dev {end.dev}" for end in ends]
    for end in ends:
        lines += [
            f"neighbour replace {peer.ip} lladdr {peer.mac} dev {end.dev} nud permanent" for peer in peers(net, end)
        ]
    lines += routes(net, space) + gateways.ipsec(cell, net, space)
    for program, command in queues.commands(cell, space):
        if program == "ip":
            lines.append(command)
    return lines


def length_s(cell: Cell, flow: Flow) -> float:
    """Return how long a flow of `cell` is configured to run, s."""
    return round((flow.stop_s or cell.seconds) - flow.start_s, 6)


def _iperf3(cell: Cell, net: Network, begins: Sequence[float]) -> Iterator[tuple[str, str]]:
    """Yield the server of each flow, and its client, which waits for its start time."""
    every = max(0.1, cell.sample_s)  # iperf3 takes no shorter interval
    for n, (flow, start) in enumerate(zip(cell.flows, begins, strict=True)):
        sender, receiver = net.ends(flow)
        yield (
            f"ip netns exec {receiver.space} iperf3 -s -1 -p {ports.BULK + n} -i {every:g} -J >receiver-{n} &",
            f"(sleep {start:.6f}; exec ip netns exec {sender.space} iperf3 -c {receiver.ip} -p {ports.BULK + n} "
            f"--cport {from_port(n, flow)} -C {CONTENDERS[flow.contender].cc} -t {length_s(cell, flow):g} "
            f"-i {every:g} -J --fq-rate {flow.pacing_bps or 0} "
            f">sender-{n}) &",
        )


def _mangle(cell: Cell, hop: Hop) -> list[str]:
    """Return the nftables rules by which `hop` changes the ECN field or the DSCP of packets that go down."""
    what = {
        "ect1-to-not-ect": "ip ecn ect1 ip ecn set not-ect",
        "to-ect1": f"{_NO_SYN}ip ecn != ce ip ecn set ect1",
        "to-not-ect": "ip ecn set not-ect",
        "to-dscp-4": "ip dscp set 4",
    }[hop.mangle]
    numbers = ", ".join(str(from_port(n, cell.flows[n])) for n in hop.mangled_flows)
    which = f"tcp sport {{ {numbers} }} " if numbers else ""
    chain = "chain forward { type filter hook forward priority mangle;"
    return ["table ip mangle {", f'{chain} iifname "wan" {which}{what}; }}', "}"]


def _batch(command: str, lines: Sequence[str], after: str = "") -> str:
    return "\n".join([f"{command} <<'END' {after}".rstrip(), *lines, "END"])
