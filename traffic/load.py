# SPDX-License-Identifier: Apache-2.0
"""What competes in one phase: bulk flows, towards the client or away from it, web users, a second video, a call."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sojourn.hardware.machine.messages import did_you_mean
from sojourn.traffic.contender import CONTENDERS

MOST_FLOWS = 64
"""Of one load: each is an iperf3, or a program of ours, at both ends."""
WEB, VIDEO, CALL = "web", "video", "call"
APPLICATIONS = {
    WEB: "a web user, who fetches pages that come down",
    VIDEO: "a second video at the client's place, which comes down",
    CALL: "a call between client and server, both ways at once",
}
"""What competes besides bulk flows."""
KNOWN = (*CONTENDERS, *APPLICATIONS)
"""What a load may name."""
#: Characters of a load: a run of somebody else may say anything.
_LONGEST = 2000
_TERM = re.compile(r"(?P<contender>[a-z0-9_.-]+)(?P<up>@up)?(?:\*(?P<count>[1-9]\d{0,3}))?", re.IGNORECASE)


@dataclass(frozen=True)
class LoadFlow:
    """One part of a load: a bulk TCP flow, by a name of CONTENDERS, or an application, by one of APPLICATIONS."""

    contender: str
    up: bool = False
    """Of a bulk flow: whether it goes up, from the client's side."""

    @property
    def bulk(self) -> bool:
        """Whether it is a bulk flow."""
        return self.contender not in APPLICATIONS


def parse_load(text: str) -> tuple[LoadFlow, ...]:
    """Return the parts of `cubic`, `cubic*4` (four at once), `cubic@up` (an upload) or, together, `cubic@up*2+web`.

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
        if name not in KNOWN:
            hint = did_you_mean(name, KNOWN)
            raise ValueError(f"unknown contender {name!r}; {f'{hint}; ' if hint else ''}known: {', '.join(KNOWN)}")
        if match["up"] and name in APPLICATIONS:
            raise ValueError(f"{term.strip()!r}: {name} is {APPLICATIONS[name]}; leave @up out")
        if len(flows) + (count := int(match["count"] or 1)) > MOST_FLOWS:
            raise ValueError(f"{text!r} has {len(flows) + count} flows or more; at most {MOST_FLOWS} compete at once")
        flows += [LoadFlow(name, bool(match["up"]))] * count
    if twice := next((name for name in (VIDEO, CALL) if flows.count(LoadFlow(name)) > 1), None):
        raise ValueError(f"{text!r}: {twice} is {APPLICATIONS[twice]}; one of it competes at once")
    return tuple(flows)
