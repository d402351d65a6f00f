# SPDX-License-Identifier: Apache-2.0
"""Harm that a contender does to the victim, against the victim alone in the same run.

Source: Ware, Mukerjee, Seshan, Sherry, "Beyond Jain's Fairness Index: Setting the Bar For The Deployment of
Congestion Control Algorithms", HotNets 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isinf
from typing import Literal, Protocol

Better = Literal["more", "less"]
Window = tuple[float, float]

Victim = Literal["video", "call", "game", "web"]
"""Kinds of victims."""
PRIMARY: dict[Victim, str] = {
    "video": "played_height",
    "call": "frames_in_time",
    "game": "tick_in_50ms",
    "web": "lcp_p50_ms",
}
"""The metric that decides for a victim, for a page the median time until it looks loaded. p-values of all others are
corrected for their number (`holm`).
"""


Severity = Literal["none", "some", "severe"]
SOME, SEVERE = 0.05, 0.2
"""The least harm called `some` and `severe`: a twentieth and a fifth of the victim's baseline.

Conventions of this project, not of a standard. A harm of a fifth is for a video 12 s of stalls per minute, or 720p that
falls to 480p for 36 s of it; for a call every fifth frame late or never shown.
"""


def severity(harm: float) -> Severity:
    """Return the severity of a harm, from its two displayed decimals, so that figure and word agree."""
    shown = round(harm, 2)
    return "severe" if shown >= SEVERE else "some" if shown >= SOME else "none"


class HasTimes(Protocol):
    """A phase of a run: `contender` is None in a solo phase; `start` and `end` are Unix seconds."""

    @property
    def contender(self) -> str | None: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...


def harm(solo: float, contended: float, better: Better) -> float:
    """Return the harm of one metric: (solo - y)/solo where more is better, (y - solo)/y where less is better.

    0 is no harm, 1 the worst (an infinite delay); below 0, the victim fared better than alone. 0 if the formula is
    undefined: nothing to lose, nothing bad in either, both infinite. Raises ValueError if less is better and only
    `solo` is infinite: an infinite value is not a baseline.
    """
    if better == "more":
        return (solo - contended) / solo if solo > 0 else 0.0
    if isinf(contended):
        return 0.0 if isinf(solo) else 1.0
    if isinf(solo):
        raise ValueError("an infinite baseline of what should be small")
    return (contended - solo) / contended if contended > 0 else 0.0


SHORTEST_S = 5.0
"""A shorter remainder of a solo phase is no baseline, s."""


def recovery_s(*, call: bool) -> float:
    """Return how long a solo phase after a contender is no baseline, s.

    A player needs 10-20 s to regain its quality; the receiver of a call's sound remembers the delays of the last half
    minute (docs/calls.md).
    """
    return 40.0 if call else 20.0


def solo_windows(
    phases: Sequence[HasTimes],
    after_contender: float,
    shortest: float = SHORTEST_S,
    since_recovery: Callable[[Window], Window | None] = lambda window: window,
) -> list[Window]:
    """Return the parts of the solo phases that form the baseline, as (start, end).

    A solo phase after a contender loses its first `after_contender` s, then what `since_recovery` excludes (the picture
    of a call behind a full pfifo takes over a minute). Remainders shorter than `shortest` s are dropped.
    """
    windows: list[Window | None] = []
    for before, phase in zip([None, *phases], phases, strict=False):
        if phase.contender is None:
            after = before is not None and before.contender is not None
            windows.append(
                since_recovery((phase.start + after_contender, phase.end)) if after else (phase.start, phase.end)
            )
    return [window for window in windows if window and window[1] - window[0] >= shortest]
