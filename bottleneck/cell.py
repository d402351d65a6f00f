# SPDX-License-Identifier: Apache-2.0
"""A cell: one complete point of a transport experiment, as data. The same cell runs in simulated and in real time."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from sojourn.bottleneck.delivery_trace import DeliveryTrace
from sojourn.bottleneck.spec import Hop
from sojourn.hardware.machine.ip import IpVersion
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.endpoints import MOST
from sojourn.traffic.program import PROGRAMS
from sojourn.traffic.spec import Call, Flow, Probe, RecordedCall, ShortFlows, Specified


class Cell(Specified):
    """Everything that determines the outcome of one run, except the seed."""

    name: str
    """The cell's name in tables and for `-k`; unique in its matrix."""
    flows: tuple[Flow, ...] = ()
    hops: tuple[Hop, ...]
    """From the sender's side to the receiver's."""
    seconds: float = Field(gt=0, le=3600)
    short_flows: ShortFlows | None = None
    call: Call | RecordedCall | None = None
    probes: tuple[Probe, ...] = ()
    ip_version: IpVersion = 4
    """Of all that is sent."""
    tunnel: Literal["", "wireguard", "fou", "fou-auto", "ipsec", "openvpn", "openvpn-plain"] = ""
    """Between the two ends of the chain of middleboxes, around the bottleneck."""
    sender_queue: Literal["", "fq"] = ""
    """Root qdisc of the sending hosts, which then paces their flows; their RTT must be 0, and the delay in a hop."""
    bunching_us: int = Field(default=0, ge=0, le=10_000)
    """Longest time between two releases of packets at each host, µs, as of a NIC that coalesces interrupts."""
    replay_window: int = Field(default=0, ge=0, le=4096)
    """With `ipsec`: packets; 0 is off."""
    offloads: bool = False
    """Whether segmentation offloads stay on, as by default in namespaces: a queue's packet is up to 64 KiB."""
    pacing_percent: tuple[PositiveInt, PositiveInt] | None = None
    """net.ipv4.tcp_pacing_ss_ratio and tcp_pacing_ca_ratio of all senders, percent; None: the kernel's own."""
    tso_2020: bool = False
    """Whether TCP builds and holds back packets of several segments as Linux did in 2020: a segment that
    the window allows alone waits for the next ACK (until 6.17), and left-over segments stay single (until 6.9)."""
    sample_s: float = Field(default=0.05, gt=0)
    """Interval of the samples of every flow (tcp_info), s."""
    per_packet: bool = False
    """Whether each packet of the flows down is recorded (packets.csv), which is how programs are measured."""
    needs: str = ""
    """What the kernel needs beyond mainline, for the row of a cell that cannot run; empty: nothing."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if wrong := next(self._wrong(), ""):
            raise ValueError(f"cell {self.name}: {wrong}")
        return self

    def _wrong(self) -> Iterator[str]:
        """Yield inconsistencies, a line each."""
        if not self.hops:
            yield "needs a middlebox"
        if not (self.flows or self.short_flows or self.call or self.probes):
            yield "needs a flow, a call or a probe"
        if self.ip_version == 6 and (self.tunnel or any(hop.mangle for hop in self.hops)):
            yield "tunnels, and middleboxes that change the ECN field or DSCP, support IPv4 only"
        if self.ip_version == 6 and any(hop.host_queue for hop in self.hops):
            yield "host_queue: its filter supports IPv4 only"
        if self.per_packet and (self.ip_version == 6 or self.tunnel):
            yield "per_packet: supports IPv4 without tunnels only"
        if self.per_packet and any(flow.up for flow in self.flows):
            yield "per_packet: supports flows down only, not up=True"
        if not self.per_packet and (one := next((f for f in self.flows if f.contender in PROGRAMS), None)):
            yield f"{one.contender} is measured from its packets; set per_packet=True"
        others = (*self.probes, *(one for one in (self.call, self.short_flows) if one))
        if self.sender_queue and any(one.rtt_us for one in (*self.flows, *others)):
            yield "sender_queue: flows, probes and calls must have an RTT of 0, and a hop's path the delay"
        if self.sender_queue and self.bunching_us:
            yield "bunching_us: a host with sender_queue has no other qdisc; give a hop's path slot_us"
        if self.replay_window and self.tunnel != "ipsec":
            yield f"replay_window: needs tunnel='ipsec', not {self.tunnel!r}"
        for n in sorted({n for hop in self.hops for n in hop.mangled_flows}):
            if not 0 <= n < len(self.flows):
                yield f"mangled_flows: there is no flow {n}, the first of {len(self.flows)} is 0"
            elif self.flows[n].up or self.flows[n].contender not in CONTENDERS:
                yield f"mangled_flows: flow {n} is not a TCP flow down"
        yield from self._too_many()
        starts = [flow.start_s for flow in self.flows] + ([self.short_flows.start_s] if self.short_flows else [])
        if (last := max(starts, default=0)) >= self.seconds:
            yield f"a flow cannot start at {last:g} s of {self.seconds:g}"
        steps = [step.at_s for hop in self.hops for step in (*hop.schedule, *hop.schedule_up)]
        if steps and (last := max(steps)) >= self.seconds:
            yield f"a rate cannot change at {last:g} s of {self.seconds:g}"

    def _too_many(self) -> Iterator[str]:
        """Yield, a line each, what exceeds simulated time's endpoints (`sojourn.traffic.endpoints.MOST`)."""
        hosts, hops = len(self.rtts_us), len(self.hops)
        steps = sum(len(hop.schedule) + len(hop.schedule_up) for hop in self.hops)
        for name, count, most in (
            ("flows", len(self.flows), MOST["flows"]),
            ("probes", len(self.probes), MOST["probes"]),
            ("steps of schedule and schedule_up of all hops", steps, MOST["steps"]),
            # In addition to the hosts' taps, the receiver has one, and captures have two.
            ("RTTs with per_packet", hosts if self.per_packet else 0, MOST["taps"] - 3),
            # In addition there are a receiver, a switch and the two ends of a tunnel.
            ("hops and RTTs together", hosts + hops, MOST["spaces"] - 4),
        ):
            if count > most:
                yield f"{name}: {count}, at most {most} are supported"

    def swapped(self, old: str, new: str) -> Cell:
        """Return the cell with contender `new` in every flow that has `old`. Raises ValidationError."""
        flows = tuple(f.model_copy(update={"contender": new}) if f.contender == old else f for f in self.flows)
        short = self.short_flows
        if short and short.contender == old:
            short = short.model_copy(update={"contender": new})
        return Cell.model_validate(self.model_copy(update={"flows": flows, "short_flows": short}))

    def traced(self, slots: DeliveryTrace) -> Cell:
        """Return the cell with `slots` in each middlebox that has slots."""
        hops = tuple(hop.traced(slots) if hop.slots else hop for hop in self.hops)
        return Cell.model_validate(self.model_copy(update={"hops": hops}))

    @property
    def rtts_us(self) -> tuple[int, ...]:
        """RTTs of all senders, µs, ascending: each has a separate host."""
        others = (*self.probes, *(one for one in (self.short_flows, self.call) if one))
        return tuple(sorted({one.rtt_us for one in (*self.flows, *others)}))

    @property
    def slug(self) -> str:
        """The name as a directory name."""
        return re.sub(r"[^A-Za-z0-9_.=-]+", "-", self.name).strip("-")

    def digest(self) -> str:
        """A hash of the definition: equal cells are the same experiment, regardless of where a trace of slots lies."""
        hops = tuple(
            hop.model_copy(update={"slots": hop.slots.model_copy(update={"file": ""})}) if hop.slots else hop
            for hop in self.hops
        )
        requested = self.model_copy(update={"hops": hops})
        # Cells of results that exist keep their digest.
        later = set() if self.bunching_us else {"bunching_us"}
        return hashlib.sha256(requested.model_dump_json(exclude=later).encode()).hexdigest()[:16]
