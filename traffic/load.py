# SPDX-License-Identifier: Apache-2.0
"""What competes in one phase: one bulk flow or several at once, towards the client or away from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hardware.machine.messages import did_you_mean
from traffic.contender import CONTENDERS

MOST_FLOWS = 64
"""Of one load: each is an iperf3 at both ends."""
#: Characters of a load: a run of somebody else may say anything.
_LONGEST = 2000
_TERM = re.compile(r"(?P<contender>[a-z0-9_.-]+)(?P<up>@up)?(?:\*(?P<count>[1-9]\d{0,3}))?", re.IGNORECASE)


@dataclass(frozen=True)
class LoadFlow:
    """One bulk TCP flow of a load: its contender, a name of CONTENDERS, and whether it goes up, from the client."""

    contender: str
    up: bool = False

    def __str__(self) -> str:
        return f"{self.contender}@up" if self.up else self.contender


def parse_load(text: str) -> tuple[LoadFlow, ...]:
    """Return the flows of `cubic`, `cubic*4` (four at once), `cubic@up` (an upload) or, together, `prague+cubic@up*2`.

    Raises ValueError with one line that says what would be right.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"{text[:40]!r}… is too long; at most {MOST_FLOWS} flows compete at once")
    flows: list[LoadFlow] = []
    for term in text.split("+"):
        match = _TERM.fullmatch(term.strip())
        if not match:
            raise ValueError(
                f"{term.strip()!r} is no flow; give a contender, with @up for an upload and *N for several: "
                "cubic, cubic*4, prague+cubic@up*2"
            )
        name = match["contender"]
        if name not in CONTENDERS:
            hint = did_you_mean(name, CONTENDERS)
            raise ValueError(f"unknown contender {name!r}; {f'{hint}; ' if hint else ''}known: {', '.join(CONTENDERS)}")
        if len(flows) + (count := int(match["count"] or 1)) > MOST_FLOWS:
            raise ValueError(f"{text!r} has {len(flows) + count} flows or more; at most {MOST_FLOWS} compete at once")
        flows += [LoadFlow(name, bool(match["up"]))] * count
    return tuple(flows)


def load_name(flows: Sequence[LoadFlow]) -> str:
    """Write a load as `parse_load` reads it, in its order."""
    terms: list[tuple[str, int]] = []
    for flow in map(str, flows):
        if terms and terms[-1][0] == flow:
            terms[-1] = flow, terms[-1][1] + 1
        else:
            terms.append((flow, 1))
    return "+".join(flow if count == 1 else f"{flow}*{count}" for flow, count in terms)
