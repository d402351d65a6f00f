# SPDX-License-Identifier: Apache-2.0
"""The load of one phase: bulk flows to or from the client, web users, a second video, a call, a game, a test."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sojourn.hardware.machine.messages import did_you_mean
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.user_program import is_user_program

MOST_FLOWS = 64
"""Limit of one load: every flow is an iperf3 or another program at both ends."""
WEB, VIDEO, CALL, GAME, RPM = "web", "video", "call", "game", "rpm"
APPLICATIONS = {
    WEB: "a web user, who downloads pages",
    VIDEO: "a second video on the client, which is a download",
    CALL: "a call between client and server, in both directions at once",
    GAME: "an online game between client and server, in both directions at once",
}
"""Contenders between client and server."""
TESTS = {RPM: "a Responsiveness Test, which is a number of downloads"}
"""Contenders from the sender's to the receiver's host that are not one flow."""
KNOWN = (*CONTENDERS, *APPLICATIONS, *TESTS)
"""Names allowed in a load, in addition to those of the user's own kernel and programs."""
_NO_UPLOADS = APPLICATIONS | TESTS
#: Maximum length of a load in characters: a third-party run may contain anything.
_LONGEST = 2000
_TERM = re.compile(r"(?P<contender>[a-z0-9_.-]+)(?P<up>@up)?(?:\*(?P<count>[1-9]\d{0,3}))?", re.IGNORECASE)


@dataclass(frozen=True)
class LoadFlow:
    """One part of a load: a bulk flow, by a name of CONTENDERS or of a user's program, or an application."""

    contender: str
    up: bool = False
    """Whether a bulk flow is an upload, from the client's side."""

    @property
    def bulk(self) -> bool:
        """Whether its data goes from the sender's host to the receiver's, or back."""
        return self.contender not in APPLICATIONS

    @property
    def one_flow(self) -> bool:
        """Whether it is a bulk flow of the kernel's TCP or of a user's program."""
        return self.bulk and self.contender not in TESTS


def parse_load(text: str) -> tuple[LoadFlow, ...]:
    """Return the parts of `cubic`, `cubic*4` (four at once), `cubic@up` (an upload) or, together, `cubic@up*2+web`.

    Raises ValueError with one line that says what would be right.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"{text[:40]!r}… is too long; at most {MOST_FLOWS} flows are allowed")
    flows: list[LoadFlow] = []
    for term in text.split("+"):
        match = _TERM.fullmatch(term.strip())
        if not match:
            raise ValueError(
                f"{term.strip()!r} is not a flow; give a contender, with @up for an upload and *N for several: "
                "cubic, cubic*4, prague+cubic@up*2"
            )
        name = match["contender"]
        if name not in KNOWN and name not in CONTENDERS and not is_user_program(name):
            hint = did_you_mean(name, KNOWN)
            raise ValueError(f"unknown contender {name!r}; {f'{hint}; ' if hint else ''}known: {', '.join(KNOWN)}")
        if match["up"] and (what := _NO_UPLOADS.get(name)):
            raise ValueError(f"{term.strip()!r}: {name} is {what}; remove @up")
        if len(flows) + (count := int(match["count"] or 1)) > MOST_FLOWS:
            raise ValueError(f"{text!r} has {len(flows) + count} or more flows; at most {MOST_FLOWS} are allowed")
        flows += [LoadFlow(name, bool(match["up"]))] * count
    if twice := next((name for name in (VIDEO, CALL, GAME, RPM) if flows.count(LoadFlow(name)) > 1), None):
        raise ValueError(f"{text!r}: {twice} is {_NO_UPLOADS[twice]}; only one can compete at a time")
    return tuple(flows)
