# SPDX-License-Identifier: Apache-2.0
"""Queues and delays of a cell: the commands that create them, and the read-back of the kernel's state. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sojourn.bottleneck import delivery_trace, impairment, readback, shaper
from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.qdiscs import Filter
from sojourn.bottleneck.spec import IFB_DOWN, IFB_UP, Direction, Hop
from sojourn.harness.matrix.cells.guest.network import NetworkPort, hop_name, network

SLOTS = "/proc/slots"
"""Where the kernel accepts a schedule and shows it again (hardware/kernel/sch_slots.c)."""


def _delays(cell: Cell) -> Iterator[tuple[NetworkPort, Impairment]]:
    """Where each half of each host's RTT is added and its packets bunched: at the egress of both ends of its link."""
    net = network(cell)
    for rtt, host in net.hosts.items():
        peer = next(b for a, b in net.links if a == host)
        for end, delay_us in ((host, rtt // 2), (peer, rtt - rtt // 2)):
            delay = impairment.bunched(Impairment(delay_us=delay_us), cell.bunching_us)
            if delay.needed:
                yield end, delay


def _queueing(cell: Cell) -> list[NetworkPort]:
    """The hosts' devices that have a qdisc of their own."""
    return list(network(cell).hosts.values()) if cell.sender_queue else []


def _ways(hop: Hop) -> Iterator[tuple[Direction | None, str, str, str]]:
    """Yield both directions of `hop`: its configuration, egress, ingress and ifb."""
    yield hop.down, "lan", "wan", IFB_DOWN
    yield hop.up, "wan", "lan", IFB_UP


def commands(cell: Cell, space: str) -> Iterator[tuple[str, str]]:
    """The queues and delays of `space`: program (ip or tc) and its command."""
    lines: list[list[str]] = []
    for end, delay in _delays(cell):
        if end.space == space:
            lines.append([*f"tc qdisc add dev {end.dev} root handle 1:".split(), *delay.tc_args()])
    lines += [
        f"tc qdisc add dev {end.dev} root handle 1: {cell.sender_queue}".split()
        for end in _queueing(cell)
        if end.space == space
    ]
    for n, hop in enumerate(cell.hops):
        if hop_name(n) == space:
            for way, egress, ingress, ifb in _ways(hop):
                if way:
                    lines += impairment.commands(ingress, ifb, way.path)
                if way and hop.slots and way is hop.down:
                    # Its root is created with its schedule, see start_slots.
                    lines += delivery_trace.commands(egress, way.qdisc.tc_args())[1:]
                elif way:
                    lines += shaper.commands(egress, way.rate_bps, way.qdisc, unshaped=False)
                lines += readback.queue_filters(egress, way.qdisc) if way else ()
            if hop.host_queue:
                lines.append(shaper.one_queue("lan", network(cell).receiver.ip))
    for command in lines:
        yield command[0], " ".join(command[1:])


def differences(cell: Cell, answers: dict[str, str]) -> list[str]:
    """Compare each namespace's tc output for readback.queries with the cell's configuration: a line per difference."""
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
        if hop.host_queue and hop.down:
            host = _host_filter(network(cell).receiver.ip)
            lines.append((hop_name(n), readback.unfiltered("lan", hop.down.qdisc, [host], state)))
    return [f"{space}: {line}" for space, differing in lines for line in differing]


def _host_filter(host: str) -> Filter:
    """What `sojourn.bottleneck.shaper.one_queue` attaches."""
    return Filter("ip", 1, f"dst_ip {host}", {"dst_ip": host}, f"{readback.QUEUE}1")


def shown(cell: Cell, space: str) -> list[str]:
    """The devices of `space` whose configuration is read back."""
    return [end.dev for link in network(cell).links for end in link if end.space == space]


def queries(cell: Cell, space: str) -> list[str]:
    """The words of tc that show the queues and delays of `space`, and their filters if there are any."""
    devices = shown(cell, space)
    filtered = any(
        hop.host_queue or (way and readback.queue_filters(egress, way.qdisc))
        for n, hop in enumerate(cell.hops)
        for way, egress, _, _ in _ways(hop)
        if hop_name(n) == space
    )
    return [*readback.queries(*devices), *(readback.filter_queries(*devices) if filtered else ())]


def slots_file(space: str) -> str:
    """The file of a hop's schedule."""
    return f"slots-{space}"


def slotted(cell: Cell) -> list[tuple[str, Hop]]:
    """Return name and hop of each middlebox with a delivery trace."""
    return [(hop_name(n), hop) for n, hop in enumerate(cell.hops) if hop.slots]


def start_slots(cell: Cell) -> list[str]:
    """Return the shell lines that give each hop with a delivery trace its schedule and the qdisc that follows it."""
    root = " ".join(delivery_trace.commands("lan", ())[0][1:])
    return [f"cat {slots_file(space)} >{SLOTS}\ntc -n {space} {root}" for space, _ in slotted(cell)]


def stepped(cell: Cell) -> dict[str, tuple[str, str, int]]:
    """Return namespace, device and last rate (bit/s) of each direction whose rate changes, by the file with its classes
    after the run.
    """
    ways = (
        (hop_name(n), dev, schedule)
        for n, hop in enumerate(cell.hops)
        for dev, schedule in (("lan", hop.schedule), ("wan", hop.schedule_up))
    )
    return {
        f"stepped-{space}-{dev}": (space, dev, max(schedule, key=lambda step: step.at_s).rate_bps)
        for space, dev, schedule in ways
        if schedule
    }


def query_rates(cell: Cell) -> list[str]:
    """Return the shell lines that write the files of `stepped`."""
    return [f"tc -n {space} -d -j class show dev {dev} >{file}" for file, (space, dev, _) in stepped(cell).items()]


def unlike_rates(cell: Cell, answers: Mapping[str, str]) -> list[str]:
    """Return how rates after the run differ from the last steps of `cell`; `answers` are the files of `stepped`."""
    return [
        f"{space}: {line}"
        for file, (space, dev, rate_bps) in stepped(cell).items()
        for line in readback.rated(dev, readback.SHAPED, rate_bps, next(readback.json_values(answers[file]), []))
    ]
