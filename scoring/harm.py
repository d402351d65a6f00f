# SPDX-License-Identifier: Apache-2.0
"""Harm that a contender does to the victim, against the victim alone in the same run.

Source: Ware, Mukerjee, Seshan, Sherry, "Beyond Jain's Fairness Index: Setting the Bar For The Deployment of
Congestion Control Algorithms", HotNets 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

Better = Literal["more", "less"]
Window = tuple[float, float]

# What the victim's user feels, and which way is better.
METRICS: dict[str, Better] = {
    "victim_mbps": "more",
    "mean_height": "more",
    "fps": "more",
    "stall_s_per_min": "less",
    "freezes_per_min": "less",
    "drops_per_min": "less",
    "rtt_p99_ms": "less",
    "frame_p99_ms": "less",
}


class HasTimes(Protocol):
    """A stretch of a run: `contender` is None in a solo phase; `start` and `end` are Unix seconds."""

    @property
    def contender(self) -> str | None: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...


def harm(solo: float, beside: float, better: Better) -> float:
    """Harm of one metric: (solo - y)/solo where more is better, (y - solo)/y where less is better.

    0 is no harm, 1 the worst; below 0 the victim fared better than alone. 0 where the formula has no value
    (nothing to lose, or nothing bad happened).
    """
    base, loss = (solo, solo - beside) if better == "more" else (beside, beside - solo)
    return loss / base if base > 0 else 0.0


def solo_windows(
    phases: Sequence[HasTimes],
    settle: float = 20.0,
    shortest: float = 5.0,
    since_recovery: Callable[[Window], Window | None] = lambda window: window,
) -> list[Window]:
    """The parts of the solo phases that make the baseline, as (start, end).

    A player regains its quality only 10-20 s after a contender stops: `settle` s at the start of a solo phase
    that follows one are left out, of the rest what `since_recovery` leaves out (a call behind a full pfifo takes over
    a minute), and what is then shorter than `shortest` s altogether.
    """
    windows: list[Window | None] = []
    for before, phase in zip([None, *phases], phases, strict=False):
        if phase.contender is None:
            after = before is not None and before.contender is not None
            windows.append(since_recovery((phase.start + settle, phase.end)) if after else (phase.start, phase.end))
    return [window for window in windows if window and window[1] - window[0] >= shortest]
