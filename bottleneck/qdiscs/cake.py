# SPDX-License-Identifier: Apache-2.0
"""cake: common applications kept enhanced (tc-cake(8))."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from sojourn.bottleneck.parameters import Choice, Count, Flag, Parameter, ParameterError, Rate, Size, Time
from sojourn.bottleneck.qdiscs.base import Qdisc
from sojourn.bottleneck.sce import Ramp

_RTT_PRESETS = {
    "datacentre": 100,
    "lan": 1_000,
    "metro": 10_000,
    "regional": 30_000,
    "internet": 100_000,
    "oceanic": 300_000,
    "satellite": 1_000_000,
    "interplanetary": 1_000_000_000,
}
# The effect of every framing word: cell mode (None: unchanged), bytes of overhead, whether they add up, minimum packet.
_FRAMING: dict[str, tuple[str | None, int, bool, int | None]] = {
    "raw": ("noatm", 0, False, None),
    "conservative": ("atm", 48, False, None),
    "ipoa-vcmux": ("atm", 8, True, None),
    "ipoa-llcsnap": ("atm", 16, True, None),
    "bridged-vcmux": ("atm", 24, True, None),
    "bridged-llcsnap": ("atm", 32, True, None),
    "pppoa-vcmux": ("atm", 10, True, None),
    "pppoa-llc": ("atm", 14, True, None),
    "pppoe-vcmux": ("atm", 32, True, None),
    "pppoe-llcsnap": ("atm", 40, True, None),
    "pppoe-ptm": ("ptm", 30, True, None),
    "bridged-ptm": ("ptm", 22, True, None),
    "via-ethernet": (None, 0, True, None),
    "ethernet": (None, 38, True, 84),
    "ether-vlan": (None, 4, True, None),
    "docsis": ("noatm", 18, True, 64),
}


def _same(*words: str) -> dict[str, str]:
    return {word: word for word in words}


@dataclass(frozen=True, kw_only=True)
class Framing(Parameter):
    """Link-layer framing words, which add up in the order given."""

    repeats: bool = True

    @property
    def help(self) -> str:
        return " | ".join(_FRAMING)

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(_FRAMING)

    def match(self, tokens: Sequence[str]) -> tuple[Any, int] | None:
        return ((tokens[0],), 1) if tokens[0] in _FRAMING else None

    def tokens(self, value: tuple[str, ...]) -> list[str]:
        return list(value)

    def check(self, value: tuple[str, ...]) -> None:
        if unknown := [word for word in value if word not in _FRAMING]:
            raise ParameterError(f'"{unknown[0]}" is not one of {", ".join(_FRAMING)}')

    def differences(self, value: tuple[str, ...], actual: Mapping[str, Any]) -> list[str]:
        requested: dict[str, Any] = {"overhead": 0}
        for word in value:
            cell, overhead, added, least = _FRAMING[word]
            requested["overhead"] = overhead + (requested["overhead"] if added else 0)
            requested |= ({"atm": cell} if cell else {}) | ({"mpu": least} if least else {})
        if "raw" in value:
            # A raw link shows no cell mode.
            requested = {"overhead": requested["overhead"], "raw": True}
        return [
            f"{key}: requested {want}, found {actual.get(key)}"
            for key, want in requested.items()
            if actual.get(key) != want
        ]


@dataclass(frozen=True, kw_only=True)
class Mask(Count):
    """A mask that tc shows in hexadecimal."""

    unit: str = "MASK"

    def agrees(self, value: int, actual: Any) -> bool:
        return bool(actual == hex(value))


class Cake(Qdisc):
    """CAKE; bandwidth in bit/s, rtt in µs, memlimit, overhead and mpu in bytes."""

    kind: ClassVar[str] = "cake"
    filtered: ClassVar[bool] = True
    mark_counters: ClassVar[tuple[str, ...]] = ("ecn_mark",)
    marks_unasked: ClassVar[bool] = True
    examples: ClassVar[tuple[str, ...]] = (
        "cake besteffort triple-isolate",
        "cake bandwidth 9mbit rtt 50ms diffserv4 dual-srchost nonat wash no-split-gso ack-filter "
        "memlimit 2mb fwmark 0xff ptm overhead 30 mpu 64 ingress",
        "cake unlimited metro diffserv8 flows nowash split-gso ack-filter-aggressive egress atm overhead -4",
        "cake bandwidth 9mbit autorate-ingress precedence hosts no-ack-filter pppoe-ptm ether-vlan",
        "cake diffserv srchost docsis",
        "cake datacentre diffserv3 flowblind raw",
        "cake satellite dual-dsthost conservative",
        "cake dsthost ethernet via-ethernet",
        "cake bandwidth 9mbit besteffort flowblind sce",
        "cake unlimited flows sce-single",
        "cake sce-thresh 8 triple-isolate",
    )

    bandwidth: Annotated[int | None, Rate(low=8, high=8 * (2**64 - 1))] = None
    unlimited: Annotated[str | None, Choice(key="bandwidth", choices=_same("unlimited"))] = None
    autorate: Annotated[str | None, Choice(choices=_same("autorate-ingress"))] = None
    rtt: Annotated[int | None, Time(low=1, presets=_RTT_PRESETS)] = None
    diffserv: Annotated[
        str | None,
        Choice(
            choices=_same("besteffort", "precedence", "diffserv8", "diffserv4", "diffserv3") | {"diffserv": "diffserv4"}
        ),
    ] = None
    flowmode: Annotated[
        str | None,
        Choice(
            choices=_same(
                "flowblind",
                "srchost",
                "dsthost",
                "hosts",
                "flows",
                "dual-srchost",
                "dual-dsthost",
                "triple-isolate",
            )
        ),
    ] = None
    nat: Annotated[bool | None, Flag(off="nonat")] = None
    wash: Annotated[bool | None, Flag(off="nowash")] = None
    split_gso: Annotated[bool | None, Flag(word="split-gso", off="no-split-gso", key="split_gso")] = None
    ack_filter: Annotated[
        str | None,
        Choice(
            key="ack-filter",
            choices={
                "ack-filter": "enabled",
                "ack-filter-aggressive": "aggressive",
                "no-ack-filter": "disabled",
            },
        ),
    ] = None
    memlimit: Annotated[int | None, Size(low=1)] = None
    fwmark: Annotated[int | None, Mask(low=1)] = None
    framing: Annotated[tuple[str, ...] | None, Framing()] = None
    atm: Annotated[str | None, Choice(choices=_same("ptm", "atm", "noatm"))] = None
    overhead: Annotated[int | None, Count(low=-64, high=256, unit="BYTES")] = None
    mpu: Annotated[int | None, Count(low=1, high=256, unit="BYTES")] = None
    ingress: Annotated[bool | None, Flag(off="egress")] = None
    sce: Annotated[int | None, Ramp()] = None

    @classmethod
    def counters(cls, statistics: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        tins: Sequence[Mapping[str, Any]] = statistics.get("tins", ())
        return tins

    @property
    def shapes_bps(self) -> int | None:
        return self.bandwidth

    def not_compared(self) -> frozenset[str]:
        # With autorate-ingress, CAKE sets its bandwidth from the rate at which packets arrive.
        return frozenset({"bandwidth", "unlimited"} if self.autorate else ())

    def validate_together(self) -> None:
        if self.bandwidth is not None and self.unlimited is not None:
            raise ValueError("bandwidth and unlimited are mutually exclusive; give one")
        if self.framing:
            for name in ("overhead", "atm", "mpu"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} is already set by {self.framing[0]}; give numbers or framing words")
