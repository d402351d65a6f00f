# SPDX-License-Identifier: Apache-2.0
"""fq_codel: flow queueing with CoDel on each queue (RFC 8290, tc-fq_codel(8))."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from sojourn.bottleneck.parameters import Count, Flag, Parameter, ParameterError, Size, Time, codel_time
from sojourn.bottleneck.qdiscs.base import Qdisc


@dataclass(frozen=True, kw_only=True)
class Selector(Parameter):
    """VALUE/MASK of the DS field to which ce_threshold applies."""

    @property
    def help(self) -> str:
        return f"{self.word} VALUE/MASK"

    def match(self, tokens: Sequence[str]) -> tuple[Any, int] | None:
        if tokens[0] != self.word:
            return None
        try:
            value, mask = (int(part, 0) for part in tokens[1].split("/"))
        except (ValueError, IndexError):
            raise ParameterError(f"{self.word} needs VALUE/MASK such as 0x1/0x3") from None
        return (value, mask), 2

    def tokens(self, value: tuple[int, int]) -> list[str]:
        return [self.word, f"{value[0]:#x}/{value[1]:#x}"]

    def check(self, value: tuple[int, int]) -> None:
        if not all(0 <= part <= 0xFE for part in value):
            raise ParameterError(f"{self.word}: value and mask are bytes up to 0xfe")

    def differences(self, value: tuple[int, int], actual: Mapping[str, Any]) -> list[str]:
        shown = actual.get("ce_threshold_selector", 0), actual.get("ce_threshold_mask", 0)
        return [] if shown == value else [f"{self.word}: requested {value}, found {shown}"]


class FqCodel(Qdisc):
    """CoDel on hashed flow queues (`flows 1` is a single queue); times in µs, memory_limit and quantum in bytes."""

    kind: ClassVar[str] = "fq_codel"
    filtered: ClassVar[bool] = True
    mark_counters: ClassVar[tuple[str, ...]] = (
        "ecn_mark",
        "ce_mark",
    )
    marks_unasked: ClassVar[bool] = True
    examples: ClassVar[tuple[str, ...]] = (
        "fq_codel",
        "fq_codel flows 1",
        "fq_codel limit 5000 flows 512 quantum 300 target 7ms interval 133ms memory_limit 4mb "
        "drop_batch 32 ce_threshold 1ms ce_threshold_selector 0x1/0x3 noecn",
        "fq_codel target 777us ecn",
    )

    limit: Annotated[int | None, Count(low=1, unit="PACKETS")] = None
    flows: Annotated[int | None, Count(low=1, high=65536)] = None
    quantum: Annotated[int | None, Count(low=256, high=2**20, unit="BYTES")] = None
    target: Annotated[int | None, Time(low=1, rounding=codel_time)] = None
    interval: Annotated[int | None, Time(low=1, rounding=codel_time)] = None
    memory_limit: Annotated[int | None, Size()] = None
    drop_batch: Annotated[int | None, Count(low=1)] = None
    ce_threshold: Annotated[int | None, Time(rounding=codel_time)] = None
    ce_threshold_selector: Annotated[tuple[int, int] | None, Selector()] = None
    ecn: Annotated[bool | None, Flag(off="noecn")] = None
