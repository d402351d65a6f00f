# SPDX-License-Identifier: Apache-2.0
"""A cell: one complete point of a transport experiment, as data. The same cell runs in simulated and in real time."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator, model_validator

from sojourn.bottleneck.delivery_trace import Slots
from sojourn.bottleneck.qdiscs import KINDS
from sojourn.bottleneck.shaper import RateStep
from sojourn.bottleneck.spec import Direction
from sojourn.hardware.machine.ip import IpVersion
from sojourn.traffic import ports
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.endpoints import MOST
from sojourn.traffic.irtt import Codepoint
from sojourn.traffic.program import PROGRAMS
from sojourn.traffic.web import P5_BYTES, P95_BYTES


class _Frozen(BaseModel):
    # A copy with other fields is checked where it becomes part of a cell, a cell where it becomes part of a matrix.
    model_config = ConfigDict(frozen=True, extra="forbid", revalidate_instances="always")


UNRESPONSIVE: dict[str, Codepoint] = {"udp": "not-ect", "udp-ect1": "ect1"}
"""Contenders that send UDP packets of 1500 bytes at a fixed rate regardless of loss, and their codepoint."""


class Flow(_Frozen):
    """One bulk flow, from the server side to the client side (`up`: the other way). Times in s."""

    contender: str
    """A name of `sojourn.traffic.contender.CONTENDERS`, `sojourn.traffic.program.PROGRAMS` or `UNRESPONSIVE`."""
    rate_bps: int | None = Field(default=None, ge=10_000, le=10_000_000_000)
    """For unresponsive flows only: bit/s of frames, as the bottleneck counts them."""
    rtt_us: int = Field(ge=0, le=4_000_000)
    """Round-trip delay of its path, half each way, µs; flows with the same rtt share a host."""
    start_s: float = Field(default=0, ge=0)
    stop_s: float | None = Field(default=None, gt=0)
    """Default: the end of the cell."""
    up: bool = False
    from_port: int | None = Field(default=None, ge=ports.FIRST_SENDER, le=ports.LAST_SENDER)
    """Its sender's TCP port, which determines the queue that a hash assigns; default: the next of those ports."""
    pacing_bps: int | None = Field(default=None, ge=10_000, le=10_000_000_000)
    """The sender's maximum rate, bit/s (SO_MAX_PACING_RATE): paced packets are not in bursts."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.contender not in (known := (*CONTENDERS, *PROGRAMS, *UNRESPONSIVE)):
            raise ValueError(f"unknown contender {self.contender!r}; known: {', '.join(known)}")
        if (self.rate_bps is not None) != (self.contender in UNRESPONSIVE):
            raise ValueError(f"{self.contender}: {' and '.join(UNRESPONSIVE)} need rate_bps, others take none")
        if self.up and self.contender not in CONTENDERS:
            raise ValueError(f"{self.contender}: flows down only")
        if self.pacing_bps and self.contender not in CONTENDERS:
            raise ValueError(f"{self.contender}: pacing_bps is for the kernel's TCP only")
        if self.stop_s is not None and self.stop_s <= self.start_s:
            raise ValueError(f"a flow cannot stop at {self.stop_s:g} s when it starts at {self.start_s:g} s")
        return self


class ShortFlows(_Frozen):
    """Flows of lognormal length that arrive at random, each fetched by a separate connection.

    The metric is their completion time: from the client's SYN, through its request, to the last byte.
    """

    contender: str = "cubic"
    """A name of `sojourn.traffic.contender.CONTENDERS`."""
    rtt_us: int = Field(ge=0, le=4_000_000)
    start_s: float = Field(default=0, ge=0)
    count: int = Field(default=900, ge=1)
    mean_gap_s: float = Field(default=0.2, gt=0)
    """Mean of the exponential time between arrivals, s."""
    p5_bytes: int = P5_BYTES
    p95_bytes: int = P95_BYTES
    remember_ssthresh: bool = False
    """Whether a flow starts with the slow start threshold that an earlier one left in the server's route metrics, as
    Linux did until 5.6 and still does with `net.ipv4.tcp_no_ssthresh_metrics_save=0`."""

    @field_validator("contender")
    @classmethod
    def _known(cls, contender: str) -> str:
        if contender not in CONTENDERS:
            raise ValueError(f"short flows are TCP: unknown contender {contender!r}; known: {', '.join(CONTENDERS)}")
        return contender


class Probe(_Frozen):
    """Small UDP packets at a fixed interval whose delays sample the queue; one way down, one clock makes them exact."""

    interval_s: float = Field(default=0.01, gt=0)
    ecn: Codepoint = "not-ect"
    rtt_us: int = Field(ge=0, le=4_000_000)
    round_trip: bool = False
    """Whether the delay is the round trip, through the queues of both directions."""


class Call(_Frozen):
    """A video call that lasts as long as the cell, both ways between the two ends.

    In simulated time a talker each way sends frames at the bit rate regardless of loss; in real time two
    browsers call each other (apps/call.py).
    """

    bitrate_bps: int = Field(default=1_790_000, ge=10_000, le=20_000_000)
    """Bit rate of the video, each way; the default is that of the published call."""
    ecn: Literal["not-ect", "ect1"] = "not-ect"
    """ect1: in dualpi2 the L queue."""
    rtt_us: int = Field(ge=0, le=4_000_000)


class Hop(_Frozen):
    """One middlebox. A direction that is None is forwarded unshaped, with the kernel's own queue."""

    down: Direction | None = None
    up: Direction | None = None
    schedule: tuple[RateStep, ...] = ()
    """Rates of `down` over the time of the cell, after its initial one."""
    schedule_up: tuple[RateStep, ...] = ()
    """The same of `up`."""
    host_queue: bool = False
    """Whether a filter maps everything down to one host to one flow queue of the qdisc `down`."""
    mangle: Literal["", "ect1-to-not-ect", "to-ect1", "to-not-ect", "to-dscp-4"] = ""
    """What it does to the ECN field of packets that go down; `to-ect1` is gaming, on any packet but a SYN, and
    `to-not-ect` clears it, as the source of S6 does for its flows "noecn". `to-dscp-4` requests low delay, as in the
    former TOS byte."""
    mangled_flows: tuple[int, ...] = ()
    """Numbers of the cell's flows that `mangle` applies to; empty: everything down."""
    slots: Slots | None = None
    """When packets may go down, instead of the rate of `down`, which is then the mean rate of the slots."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.slots and (not self.down or self.schedule or self.down.rate_bps != self.slots.rate_bps):
            raise ValueError("slots need `down` with their mean rate and no schedule; see dumbbell.slotted")
        for name, way, steps in (("", self.down, self.schedule), ("_up", self.up, self.schedule_up)):
            if steps and not way:
                raise ValueError(f"schedule{name}: its direction has no rate to change")
        if self.host_queue and not (self.down and self.down.qdisc.filtered):
            kinds = ", ".join(kind for kind, qdisc in KINDS.items() if qdisc.filtered)
            raise ValueError(f"host_queue: down needs a qdisc with a queue for each flow: {kinds}")
        if self.mangled_flows and not self.mangle:
            raise ValueError("mangled_flows: needs mangle")
        return self

    def traced(self, slots: Slots) -> Hop:
        """Return the hop with other slots and their mean rate down."""
        down = self.down and self.down.model_copy(update={"rate_bps": slots.rate_bps})
        return self.model_copy(update={"slots": slots, "down": down})


class Cell(_Frozen):
    """Everything that determines the outcome of one run, except the seed."""

    name: str
    """The cell's name in tables and for `-k`; unique in its matrix."""
    flows: tuple[Flow, ...] = ()
    hops: tuple[Hop, ...]
    """From the sender's side to the receiver's."""
    seconds: float = Field(gt=0, le=3600)
    short_flows: ShortFlows | None = None
    call: Call | None = None
    probes: tuple[Probe, ...] = ()
    ip_version: IpVersion = 4
    """Of all that is sent."""
    tunnel: Literal["", "wireguard", "fou", "fou-auto", "ipsec", "openvpn", "openvpn-plain"] = ""
    """Between the two ends of the chain of middleboxes, around the bottleneck."""
    sender_queue: Literal["", "fq"] = ""
    """Root qdisc of the sending hosts, which then paces their flows; their RTT must be 0, and the delay in a hop."""
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
        beside = (*self.probes, *(one for one in (self.call, self.short_flows) if one))
        if self.sender_queue and any(one.rtt_us for one in (*self.flows, *beside)):
            yield "sender_queue: flows, probes and calls must have an RTT of 0, and a hop's path the delay"
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

    def traced(self, slots: Slots) -> Cell:
        """Return the cell with `slots` in each middlebox that has slots."""
        hops = tuple(hop.traced(slots) if hop.slots else hop for hop in self.hops)
        return Cell.model_validate(self.model_copy(update={"hops": hops}))

    @property
    def rtts_us(self) -> tuple[int, ...]:
        """RTTs of all senders, µs, ascending: each has a separate host."""
        beside = (*self.probes, *(one for one in (self.short_flows, self.call) if one))
        return tuple(sorted({one.rtt_us for one in (*self.flows, *beside)}))

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
        asked = self.model_copy(update={"hops": hops})
        return hashlib.sha256(asked.model_dump_json().encode()).hexdigest()[:16]
