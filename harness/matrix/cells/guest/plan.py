# SPDX-License-Identifier: Apache-2.0
"""The traffic of a cell as a plan for traffic/endpoints, whose `__init__` documents the format. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import groupby, islice

from sojourn.bottleneck import shaper, units
from sojourn.bottleneck.cell import Cell
from sojourn.hardware.machine.ip import UDP_HEADERS
from sojourn.harness.matrix.cells.guest import gateways, queues
from sojourn.harness.matrix.cells.guest.network import RECEIVER, Network, NetworkPort, hop_name, network
from sojourn.traffic import nstat, ports, recorded_call, web
from sojourn.traffic.call_traffic import Schedule
from sojourn.traffic.contender import ACCURATE_ECN, CONTENDERS, NO_ECN
from sojourn.traffic.irtt import TOS
from sojourn.traffic.program import PROGRAMS
from sojourn.traffic.recorded_call import Burst
from sojourn.traffic.spec import UNRESPONSIVE, Call, Flow, RecordedCall, ShortFlows

START_SPREAD_S = 0.01
"""A flow starts 0 to this many s later than configured, by the seed, which thus sets start order and phase too."""
_NS = 1_000_000_000


def arrivals(short: ShortFlows, seed: int, seconds: float) -> list[tuple[int, int]]:
    """Return time (ns) and bytes of each short flow before `seconds` (s), see `sojourn.traffic.web.arrivals`."""
    drawn = web.arrivals(
        f"short {seed}", short.start_s, mean_gap_s=short.mean_gap_s, p5_bytes=short.p5_bytes, p95_bytes=short.p95_bytes
    )
    return [(round(at * _NS), size) for at, size in islice(drawn, short.count) if at < seconds]


def starts(cell: Cell, seed: int) -> list[float]:
    """Return when each flow starts, s: up to START_SPREAD_S after the configured time, by the seed."""
    draw = random.Random(f"start {seed}")
    return [round(flow.start_s + draw.uniform(0, START_SPREAD_S), 6) for flow in cell.flows]


def plan(cell: Cell, seed: int, *, flows: bool = True, pcap: bool = False) -> str:
    """Return the text, one line per item.

    Args:
        flows: whether it also sends the bulk flows; otherwise another program does.
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
        commands = [command for program, command in queues.commands(cell, space) if program == "tc"]
        lines += [f"tc {space} {command}" for command in commands]
        if commands or space.startswith("hop"):
            lines += [f"show {space} {query}" for query in queues.queries(cell, space)]
    lines += [f"queues {hop_name(n)}" for n in range(len(cell.hops))]
    ends = (*net.hosts.values(), net.receiver)
    lines += [f"counters {end.space} {file}" for end in ends for file in nstat.FILES]
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
        lines += _talks(cell, cell.call, net, offset)
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


def _talks(cell: Cell, call: Call, net: Network, draw: random.Random) -> Iterator[str]:
    """The talkers of a call: down first."""
    host, receiver = net.hosts[call.rtt_us], net.receiver
    plain = 0
    if isinstance(call, RecordedCall):
        start = draw.uniform(0, recorded_call.SECONDS)
        speed = call.bitrate_bps / recorded_call.BITRATE_BPS
        ways = [recorded_call.replay(way, cell.seconds, start, speed) for way in ("down", "up")]
        plain = max(0, call.ecn_above_bytes - UDP_HEADERS[cell.ip_version])
    else:
        ways = [_frames(Schedule(bitrate_bps=call.bitrate_bps), draw, cell.seconds) for _ in range(2)]
    ends = ((host, receiver), (receiver, host))
    for n, ((sender, listener), bursts) in enumerate(zip(ends, ways, strict=True)):
        yield f"talk {sender.space} {listener.space} {listener.ip} {ports.TALK + n} {TOS[call.ecn]} {plain}"
        yield from (f"burst {_ns(burst.at_s)} {burst.packets} {burst.payload}" for burst in bursts)


def _frames(schedule: Schedule, draw: random.Random, seconds: float) -> Iterator[Burst]:
    """Yield the packets of a schedule's frames, the first at a random time within a frame."""
    at, number = draw.uniform(0, 1 / schedule.fps), 0
    while at < seconds:
        yield from (Burst(at, len([*same]), size) for size, same in groupby(schedule.packets(number)))
        at, number = at + 1 / schedule.fps, number + 1


def _ecn_modes(cell: Cell, net: Network) -> dict[str, int]:
    """Return the ECN mode that all flows of a sending host share with iperf3: the highest that one of them needs."""
    modes: dict[str, int] = {}
    for flow in cell.flows:
        mode, space = CONTENDERS[flow.contender].tcp_ecn, net.ends(flow)[0].space
        if (modes.get(space, mode) == NO_ECN) != (mode == NO_ECN):
            raise ValueError(f"cell {cell.name}: --endpoints=iperf3: flows with and without ECN cannot share a host")
        modes[space] = max(mode, modes.get(space, mode))
    return modes


def _flows(cell: Cell, net: Network, begins: Sequence[float]) -> Iterator[str]:
    for n, (flow, start) in enumerate(zip(cell.flows, begins, strict=True)):
        sender, receiver = net.ends(flow)
        if flow.contender not in CONTENDERS:
            times = f"{_ns(start)} {_ns(flow.stop_s or cell.seconds)}"
            yield _no_tcp(n, flow, sender, receiver, udp_payload(cell), times)
            continue
        contender = CONTENDERS[flow.contender]
        yield (
            f"flow {sender.space} {receiver.space} {receiver.ip} {ports.BULK + n} {from_port(n, flow)} "
            f"{contender.cc} {contender.tcp_ecn} {_ns(start)} {_ns(flow.stop_s or cell.seconds)}"
        )
        if flow.pacing_bps:
            yield f"pace {flow.pacing_bps // 8}"


def udp_payload(cell: Cell) -> int:
    """Return the payload bytes of an unresponsive flow's packets: the most that no host or tunnel fragments."""
    largest = gateways.inner_mtu(cell.tunnel) if cell.tunnel else units.IP_BYTES
    return largest - UDP_HEADERS[cell.ip_version]


def _no_tcp(n: int, flow: Flow, sender: NetworkPort, receiver: NetworkPort, payload: int, times: str) -> str:
    """Return the line of a flow that the kernel's TCP does not send: unresponsive packets, or a program's."""
    port, ends = ports.BULK + n, f"{sender.space} {receiver.space}"
    if flow.rate_bps:
        gap = round(units.FRAME_BYTES * 8 * _NS / flow.rate_bps)
        tos = TOS[UNRESPONSIVE[flow.contender]]
        return f"datagrams {ends} {receiver.ip} {port} {from_port(n, flow)} {tos} {payload} {gap} {times}"
    commands = PROGRAMS[flow.contender].commands(f"./{flow.contender}", receiver.ip, port, from_port(n, flow))
    return f"program {ends} {port} {times} " + "\t".join(commands)


def from_port(n: int, flow: Flow) -> int:
    """The TCP port that flow number `n` is sent from."""
    return flow.from_port or ports.FIRST_SENDER + n


def _taps(cell: Cell, net: Network) -> Iterator[str]:
    """Yield taps where packets enter the path, after the first half of their delay, and where they leave it."""
    for end in (*net.hosts.values(), net.receiver):
        last = ports.BULK + len(cell.flows) - 1
        yield f"tap {end.space} {end.dev} {tap_name(end.space)} {ports.BULK} {last}"


def tap_name(space: str) -> str:
    """Return the file name of the packets seen at the device of a host or of the receiver."""
    return f"tap-{space}.pcapng"


def captured(cell: Cell) -> dict[str, NetworkPort]:
    """Return the devices whose packets are captured, by side: the receiver's, and where the hosts' links end."""
    net = network(cell)
    return {"client": net.receiver, "server": NetworkPort(net.boxes[0], "wan")}


def capture_name(side: str) -> str:
    """Return the file name of a side's capture."""
    return f"{side}.pcapng"


def _ns(seconds: float) -> int:
    return round(seconds * _NS)
