# SPDX-License-Identifier: Apache-2.0
"""The path's delay: netem on an ifb fed from a router's ingress, so that delay and AQM never share a queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sojourn.bottleneck import units


class Impairment(BaseModel):
    """What happens to a packet before the bottleneck, in one direction. Times in µs, loss in percent, limit in packets.

    `jitter_us` varies the delay (and so reorders). `slot_us` instead releases packets in bursts, as Wi-Fi and LTE do,
    and keeps their order: one burst every `slot_us`, or at random intervals from `slot_us` to `slot_max_us`, of at most
    `slot_packets`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    delay_us: int = Field(default=0, ge=0, le=2_000_000)
    jitter_us: int = Field(default=0, ge=0, le=2_000_000)
    loss_percent: float = Field(default=0, ge=0, le=100)
    marks: bool = False
    """Whether ECN-capable packets are marked instead of dropped."""
    slot_us: int = Field(default=0, ge=0, le=1_000_000)
    slot_max_us: int | None = Field(default=None, ge=1, le=1_000_000)
    slot_packets: int | None = Field(default=None, ge=1)
    # Far above any bandwidth-delay product in use: netem must never be the bottleneck.
    limit: int = Field(default=200_000, ge=1)

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.jitter_us > self.delay_us:
            raise ValueError(f"a jitter of {self.jitter_us} us needs a delay of at least {self.jitter_us} us")
        if self.marks and not self.loss_percent:
            raise ValueError("a path that marks needs a loss: the share of packets to mark")
        if self.slot_max_us is not None and not 0 < self.slot_us <= self.slot_max_us:
            raise ValueError(f"a maximum slot of {self.slot_max_us} us needs a minimum slot that is not longer")
        if self.slot_packets is not None and not self.slot_us:
            raise ValueError("packets per slot need a slot duration")
        return self

    @property
    def needed(self) -> bool:
        """Whether the path changes anything for packets."""
        return bool(self.delay_us or self.loss_percent or self.slot_us)

    @property
    def varies_us(self) -> int:
        """The most by which a packet may be later than `delay_us`, µs: jitter plus the wait for its burst."""
        return self.jitter_us + (self.slot_max_us or self.slot_us)

    def tc_args(self) -> list[str]:
        """Return the arguments of `tc qdisc add … netem …`."""
        words = ["netem", "limit", str(self.limit)]
        if self.delay_us:
            words += ["delay", units.format_time(self.delay_us)]
            if self.jitter_us:
                words.append(units.format_time(self.jitter_us))
        if self.loss_percent:
            words += ["loss", "random", f"{self.loss_percent:g}%", *(["ecn"] if self.marks else [])]
        if self.slot_us:
            words += ["slot", units.format_time(self.slot_us)]
            if self.slot_max_us is not None:
                words.append(units.format_time(self.slot_max_us))
            if self.slot_packets is not None:
                words += ["packets", str(self.slot_packets)]
        return words


def bunched(path: Impairment, longest_us: int) -> Impairment:
    """Return `path` with packets released at random intervals of up to `longest_us` µs, unless it has bursts already.

    With 0 they are released at once.
    """
    if not longest_us or path.slot_us:
        return path
    return path.model_copy(update={"slot_us": max(1, longest_us // 10), "slot_max_us": longest_us})


def commands(dev: str, ifb: str, path: Impairment, only: Sequence[str] = ()) -> list[list[str]]:
    """Return the commands that pass what `dev` receives (only from `only`, if given) through `path` on `ifb`.

    Empty if the path does nothing.
    """
    if not path.needed:
        return []
    wanted = [f"protocol ip prio 1 flower src_ip {source}" for source in only] or ["protocol all prio 1 matchall"]
    return [
        f"ip link add {ifb} type ifb".split(),
        f"ip link set {ifb} up".split(),
        [*f"tc qdisc add dev {ifb} root handle 1:".split(), *path.tc_args()],
        f"tc qdisc add dev {dev} handle ffff: ingress".split(),
        *(
            f"tc filter add dev {dev} parent ffff: {packets} action mirred egress redirect dev {ifb}".split()
            for packets in wanted
        ),
    ]


def teardown_commands(dev: str, ifb: str) -> list[list[str]]:
    """Return the commands that remove the path; they fail if there is none."""
    return [f"tc qdisc del dev {dev} ingress".split(), f"ip link del {ifb}".split()]
