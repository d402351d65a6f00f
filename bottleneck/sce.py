# SPDX-License-Identifier: Apache-2.0
"""Some Congestion Experienced as a queue's parameter (draft-morton-tsvwg-sce; hardware/kernel/sce_ramp.h, cobalt.h)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sojourn.bottleneck.parameters import Parameter, ParameterError

SINGLE = 1024
"""The ramp begins at CoDel's target."""
_PLAIN = {"sce": 1, "no-sce": 0}
_WORDS = {**_PLAIN, "sce-single": SINGLE}
_THRESHOLD = "sce-thresh"


@dataclass(frozen=True, kw_only=True)
class Ramp(Parameter):
    """Where marking ECT(1) begins: 1 at half the target, 1024 at the target, 0 not at all."""

    named: ClassVar[Mapping[str, int]] = _WORDS
    """Words that mean a number."""
    number: ClassVar[str] = "ramp"
    """What the number counts."""

    @property
    def help(self) -> str:
        return " | ".join((*self.named, f"{_THRESHOLD} 1…{SINGLE}"))

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.named, _THRESHOLD)

    def match(self, tokens: Sequence[str]) -> tuple[Any, int] | None:
        if tokens[0] in self.named:
            return self.named[tokens[0]], 1
        if tokens[0] != _THRESHOLD:
            return None
        if len(tokens) < 2 or not tokens[1].isdecimal() or not 1 <= int(tokens[1]) <= SINGLE:
            raise ParameterError(f"{_THRESHOLD} needs a number from 1 to {SINGLE}")
        return int(tokens[1]), 2

    def tokens(self, value: int) -> list[str]:
        return next(([word] for word, ramp in self.named.items() if ramp == value), [_THRESHOLD, str(value)])

    def check(self, value: int) -> None:
        if not 0 <= value <= SINGLE:
            raise ParameterError(f"{_THRESHOLD}: {value} is out of range: 1 to {SINGLE}")

    def differences(self, value: int, actual: Mapping[str, Any]) -> list[str]:
        shown = actual.get(_THRESHOLD, _WORDS.get(actual.get("sce", ""), 0))
        return [] if shown == value else [f"sce: requested {' '.join(self.tokens(value))}, found {self.number} {shown}"]


@dataclass(frozen=True, kw_only=True)
class IntervalDivisor(Ramp):
    """CE's interval divided by SCE's, which a second CoDel marks at half the target; 0: no SCE."""

    named: ClassVar[Mapping[str, int]] = _PLAIN
    number: ClassVar[str] = "divisor"
