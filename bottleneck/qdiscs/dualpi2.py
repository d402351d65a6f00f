# SPDX-License-Identifier: Apache-2.0
"""dualpi2: dual-queue coupled AQM for L4S (RFC 9332, tc-dualpi2(8))."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from sojourn.bottleneck import units
from sojourn.bottleneck.parameters import Choice, Count, Flag, Fraction, Percent, Time
from sojourn.bottleneck.qdiscs.base import Filter, Qdisc

_SCALE = 256  # alpha and beta are kept in steps of 1/256 Hz
_BETA_MAX = (2 << 23) - 1
_STEP_US = 1000  # mainline's default step_thresh
#: DSCP 45, Non-Queue-Building (RFC 9956), with any ECN field: for flower, and as tc shows it.
_NQB, _NQB_SHOWN = f"ip_tos {45 << 2:#x}/0xfc", {"ip_tos": 45 << 2, "ip_tos_mask": "fc"}
#: The class of packets that are in L without its marks and drops: those are for L4S (net/sched/sch_dualpi2.c).
_UNMARKED_L = 2


@dataclass(frozen=True, kw_only=True)
class PacketCount(Count):
    """A count, told apart from a time with the same word by its suffix."""

    unit: str = "PACKETSp"

    def match(self, tokens: Sequence[str]) -> tuple[Any, int] | None:
        if tokens[0] == self.word and len(tokens) > 1:
            number = re.fullmatch(r"(\d+)(p|pkts?|packets?)", tokens[1])
            return (int(number[1]), 2) if number else None
        return None

    def format(self, value: int) -> str:
        return f"{value}p"


class DualPI2(Qdisc):
    """DualPI2; times in µs, alpha and beta in Hz, memlimit in bytes, classic_protection in percent.

    The L queue's step threshold is a time (`step_thresh`) or packets (`step_thresh_packets`), not both. `nqb` is
    Sojourn's word, not tc's: filters that send packets with DSCP 45 to the L queue, which neither marks nor drops them.
    """

    kind: ClassVar[str] = "dualpi2"
    mark_counters: ClassVar[tuple[str, ...]] = ("ecn-mark",)  # includes step-mark
    marks_unasked: ClassVar[bool] = True
    examples: ClassVar[tuple[str, ...]] = (
        "dualpi2",
        "dualpi2 limit 2000 memlimit 1000000 target 20ms tupdate 10ms alpha 0.2 beta 3.5 step_thresh "
        "2ms min_qlen_step 3 coupling_factor 3 overflow drop_enqueue classic_protection 20% any_ect "
        "no_split_gso",
        "dualpi2 step_thresh 7p drop_on_overload drop_dequeue l4s_ect split_gso classic_protection 0%",
        "dualpi2 max_rtt 200ms typical_rtt 20ms",
        "dualpi2 max_rtt 80ms",
        "dualpi2 target 333us tupdate 1777us alpha 0.16 beta 3.2 step_thresh 999us",
        "dualpi2 limit 1000 nqb",
    )

    limit: Annotated[int | None, Count(low=1, unit="PACKETS")] = None
    memlimit: Annotated[int | None, Count(low=1, unit="BYTES", key="memory-limit")] = None
    target: Annotated[int | None, Time(low=1)] = None
    tupdate: Annotated[int | None, Time(low=1)] = None
    alpha: Annotated[float | None, Fraction(high=_BETA_MAX / _SCALE, step=1 / _SCALE, unit="HZ")] = None
    beta: Annotated[float | None, Fraction(high=_BETA_MAX / _SCALE, step=1 / _SCALE, unit="HZ")] = None
    max_rtt: Annotated[int | None, Time(low=1, shown=False)] = None
    typical_rtt: Annotated[int | None, Time(low=1, shown=False)] = None
    step_thresh_packets: Annotated[int | None, PacketCount(word="step_thresh", key="step-thresh-pkts", low=1)] = None
    step_thresh: Annotated[int | None, Time(key="step-thresh-us", low=1)] = None
    min_qlen_step: Annotated[int | None, Count(unit="PACKETS", key="min-qlen-step")] = None
    coupling_factor: Annotated[int | None, Count(low=1, high=255, key="coupling")] = None
    overload: Annotated[
        str | None, Choice(key="drop-overload", choices={"drop_on_overload": "drop", "overflow": "overflow"})
    ] = None
    drop_early: Annotated[
        str | None,
        Choice(key="drop-early", choices={"drop_enqueue": "drop-enqueue", "drop_dequeue": "drop-dequeue"}),
    ] = None
    classic_protection: Annotated[int | None, Percent(key="c-protection")] = None
    ecn_mask: Annotated[str | None, Choice(key="ecn-mask", choices={"l4s_ect": "l4s-ect", "any_ect": "any-ect"})] = None
    split_gso: Annotated[bool | None, Flag(off="no_split_gso", key="split-gso")] = None
    nqb: Annotated[bool | None, Flag(shown=False)] = None

    def validate_together(self) -> None:
        if self.step_thresh is not None and self.step_thresh_packets is not None:
            raise ValueError("step_thresh is given both as a time and as packets; give one")
        if self.max_rtt is None and self.typical_rtt is None:
            return
        if given := [n for n in ("target", "tupdate", "alpha", "beta") if getattr(self, n) is not None]:
            raise ValueError(f"max_rtt and typical_rtt set target, tupdate, alpha and beta; remove {given[0]}")
        automatic = self.automatic
        if self.typical_rtt and self.max_rtt and self.typical_rtt > self.max_rtt:
            raise ValueError("typical_rtt must not be above max_rtt")
        if automatic["beta"] > _BETA_MAX:
            raise ValueError("max_rtt is too low: beta would overflow")
        if min(automatic["alpha"], automatic["beta"]) < 1 / _SCALE:
            raise ValueError("max_rtt is too large: alpha or beta would be rounded to 0")

    def tc_args(self) -> list[str]:
        return [word for word in super().tc_args() if word != "nqb"]

    def __str__(self) -> str:
        return " ".join([*self.tc_args(), *(["nqb"] if self.nqb else [])])

    def filters(self, handle: str) -> Sequence[Filter]:
        classid = f"{handle}{_UNMARKED_L}"
        both = ("ip", 1), ("ipv6", 2)
        return [Filter(protocol, prio, _NQB, _NQB_SHOWN, classid) for protocol, prio in both if self.nqb]

    def caution(self, rate_bps: int) -> str:
        """Return a warning where each L packet that waits for one C packet is over the step threshold, and so marked.

        RFC 9332, appendix A, has a floor of one packet for that; mainline's default `min_qlen_step` is 0.
        """
        packet_us = units.FRAME_BYTES * 8e6 / rate_bps
        step_us = _STEP_US if self.step_thresh is None else self.step_thresh
        if self.step_thresh_packets is not None or self.min_qlen_step or packet_us <= step_us:
            return ""
        return (
            f"a packet lasts {packet_us / 1e3:.2g} ms, longer than step_thresh ({step_us / 1e3:g} ms): an L packet "
            "that waits for one C packet is marked, and L flows get less than their share; compare with "
            f"--qdisc='{self.model_copy(update={'min_qlen_step': 1})}'"
        )

    @property
    def automatic(self) -> dict[str, float]:
        """Return target, tupdate (µs), alpha and beta (Hz) as tc computes them from the two RTTs (µs).

        RFC 9332, appendix A.1: tupdate = min(RTT_typ, RTT_max/3), alpha = 0.1·tupdate/RTT_max²,
        beta = 0.3/RTT_max.
        """
        typical = self.typical_rtt or max((self.max_rtt or 0) // 6, 1)
        longest = self.max_rtt or typical * 6
        tupdate = max(int(min(typical, longest / 3)), 1)
        return {
            "target": typical,
            "tupdate": tupdate,
            "alpha": 0.1 * tupdate / longest / longest * 1e6,
            "beta": 0.3 / longest * 1e6,
        }

    def derived_differences(self, actual: Mapping[str, Any]) -> list[str]:
        if self.max_rtt is None and self.typical_rtt is None:
            return []
        parameters = self.parameters()
        return [
            line
            for name, value in self.automatic.items()
            for line in parameters[name].differences(int(value) if name[0] == "t" else value, actual)
        ]
