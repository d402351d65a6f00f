# SPDX-License-Identifier: Apache-2.0
"""A bottleneck in both directions, and the commands that set it up on a router."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, field_serializer, field_validator, model_validator

from sojourn.bottleneck import impairment, shaper, units
from sojourn.bottleneck.delivery_trace import DeliveryTrace
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.qdiscs import KINDS, Qdisc, parse_qdisc
from sojourn.bottleneck.shaper import RateStep
from sojourn.traffic.spec import Specified

IFB_DOWN, IFB_UP = "ifb-down", "ifb-up"


class Direction(BaseModel):
    """One direction through the router: a shaped rate in bit/s, the queue before it, and the path's delay."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    rate_bps: int = Field(ge=units.RATE_RANGE[0], le=units.RATE_RANGE[1])
    qdisc: SerializeAsAny[Qdisc]
    path: Impairment = Impairment()

    @field_validator("qdisc", mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return parse_qdisc(value) if isinstance(value, str) else value

    @field_serializer("qdisc")
    def _as_text(self, value: Qdisc) -> str:
        return str(value)


class Hop(Specified):
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
    slots: DeliveryTrace | None = None
    """When packets may go down, instead of the rate of `down`, which is then the mean rate of the slots."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        # A trace's file is read where it is used: a specification may come from somebody else.
        known = self.slots and self.down and not self.slots.file
        if self.slots and (not self.down or self.schedule or (known and self.down.rate_bps != self.slots.rate_bps)):
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

    def traced(self, slots: DeliveryTrace) -> Hop:
        """Return the hop with other slots and their mean rate down."""
        down = self.down and self.down.model_copy(update={"rate_bps": slots.rate_bps})
        return self.model_copy(update={"slots": slots, "down": down})


class Bottleneck(BaseModel):
    """Both directions: down is the egress of the router's LAN side, up that of its WAN side."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    down: Direction
    up: Direction

    @classmethod
    def symmetric(cls, rate_bps: int, qdisc: Qdisc | str, rtt_us: int = 0) -> Self:
        """Return the same rate (bit/s) and qdisc in both directions, each with half of `rtt_us` (µs) as delay."""
        queue = parse_qdisc(qdisc) if isinstance(qdisc, str) else qdisc
        half = rtt_us // 2
        return cls(
            down=Direction(rate_bps=rate_bps, qdisc=queue, path=Impairment(delay_us=rtt_us - half)),
            up=Direction(rate_bps=rate_bps, qdisc=queue, path=Impairment(delay_us=half)),
        )

    def stepped(self, down: Sequence[RateStep], up: Sequence[RateStep] = (), until_s: float = math.inf) -> Bottleneck:
        """Return the bottleneck with the rates that apply after the steps up to `until_s` (s)."""
        changed = {}
        for name, steps in (("down", down), ("up", up)):
            if rates := [step.rate_bps for step in steps if step.at_s <= until_s]:
                changed[name] = getattr(self, name).model_copy(update={"rate_bps": rates[-1]})
        return self.model_copy(update=changed)

    @property
    def rtt_us(self) -> int:
        """Return the path's round-trip delay in µs."""
        return self.down.path.delay_us + self.up.path.delay_us


def delayed_upwards(bottleneck: Bottleneck) -> Bottleneck:
    """Return `bottleneck` with all of its delay upwards, for a router that masquerades.

    Packets from outside have the router's own address, so nothing shows for whom they are. Raises ValueError if the
    downward path does more than delay.
    """
    down, up = bottleneck.down.path, bottleneck.up.path
    if down != Impairment(delay_us=down.delay_us, limit=down.limit):
        raise ValueError("with nat = true, the downward path supports delay only: remove its jitter, loss and bursts")
    moved = up.model_copy(update={"delay_us": up.delay_us + down.delay_us})
    return Bottleneck(
        down=bottleneck.down.model_copy(update={"path": Impairment()}),
        up=bottleneck.up.model_copy(update={"path": moved}),
    )


def commands(bottleneck: Bottleneck, lan: str = "lan", wan: str = "wan", only: Sequence[str] = ()) -> list[list[str]]:
    """Return the ip and tc commands that set up `bottleneck` on a router without configured qdiscs.

    A packet is delayed where it enters the router and shaped where it leaves. With `only`, this applies to packets from
    or to these addresses behind `lan` (see `sojourn.bottleneck.nat`).
    """
    down, up, chosen = bottleneck.down, bottleneck.up, bool(only)
    return [
        *impairment.commands(wan, IFB_DOWN, down.path),
        *impairment.commands(lan, IFB_UP, up.path, only),
        *shaper.commands(lan, down.rate_bps, down.qdisc, chosen=chosen),
        *shaper.commands(wan, up.rate_bps, up.qdisc, chosen=chosen),
    ]


def teardown_commands(lan: str = "lan", wan: str = "wan") -> list[list[str]]:
    """Return the commands that clean a router in any state; those with nothing to remove fail harmlessly."""
    return [
        *shaper.teardown_commands(lan),
        *shaper.teardown_commands(wan),
        *impairment.teardown_commands(wan, IFB_DOWN),
        *impairment.teardown_commands(lan, IFB_UP),
    ]
