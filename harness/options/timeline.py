# SPDX-License-Identifier: Apache-2.0
"""The phases of an experiment: when the victim is alone, and when which contender competes."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.traffic.load import LoadFlow, parse_load

#: Lengths in seconds: solo, first contender, solo, second contender, solo.
#: `published` is the timeline of the document "L4S Tests" for its three video services; `short` keeps its shape.
#: Each phase takes at least 2 s, and one row in every table.
_MOST_PHASES = 1000
TIMELINES = {"published": (60, 120, 60, 120, 60), "short": (20, 40, 20, 40, 20)}


@dataclass(frozen=True)
class Phase:
    """One phase: its name in every table, its contenders (see `sojourn.traffic.load`; None: solo), its length in s."""

    name: str
    contender: str | None
    seconds: int | float

    @property
    def load(self) -> tuple[LoadFlow, ...]:
        """The flows that compete in it, none in a solo phase."""
        return parse_load(self.contender) if self.contender else ()


def parse_timeline(text: str, contenders: tuple[str, ...] = ("cubic", "prague")) -> list[Phase]:
    """Parse a timeline.

    `text` is `published`, `short`, or explicit phases such as `solo:20,cubic:40,solo:20,prague:40,solo:20`
    (seconds). A named timeline takes its contenders from `contenders`, in that order, with a solo phase before,
    between and after. Raises ValueError with one line that says what would be right.
    """
    if text in TIMELINES:
        solo, contended = TIMELINES[text][:2]
        pairs: list[tuple[str, float]] = [("solo", solo)]
        for contender in contenders:
            pairs += [(contender, contended), ("solo", solo)]
    else:
        if text.count(",") >= _MOST_PHASES:
            raise ValueError(f"a timeline of {text.count(',') + 1} phases; give at most {_MOST_PHASES}")
        pairs = [_pair(part, text) for part in text.split(",")]
    if pairs[0][0] != "solo":
        raise ValueError(f"timeline {text!r}: the first phase must be solo, the baseline of every harm figure")
    return _numbered(pairs)


def reordered(phases: Sequence[Phase], seed: int, repetition: int) -> list[Phase]:
    """Return the phases with the contenders in the order of `repetition` (from 1), with unchanged lengths.

    Of repetitions 1 and 2, 3 and 4, … one has a random order and the other its reverse, so that each contender equally
    often follows the other.
    """
    pair, reverse = divmod(repetition - 1, 2)
    draw = random.Random(f"{seed} {pair}")
    order = sorted((phase for phase in phases if phase.contender), key=lambda _: draw.random())
    taken = iter(reversed(order) if reverse else order)
    now = (next(taken) if phase.contender else phase for phase in phases)
    return _numbered([(phase.contender or "solo", phase.seconds) for phase in now])


def _numbered(pairs: Sequence[tuple[str, float]]) -> list[Phase]:
    """Return the phases of (solo or contender, seconds); repeated names are numbered."""
    counts = Counter(name for name, _ in pairs)
    seen: dict[str, int] = {}
    phases = []
    for name, seconds in pairs:
        seen[name] = seen.get(name, 0) + 1
        numbered = f"{name}-{seen[name]}" if counts[name] > 1 else name
        phases.append(Phase(numbered, None if name == "solo" else name, seconds))
    return phases


def _pair(part: str, text: str) -> tuple[str, float]:
    match = re.fullmatch(r"\s*([^:,\s]+)\s*:\s*(\d+(?:\.\d+)?)\s*s?\s*", part)
    if not match or float(match[2]) < 2:
        raise ValueError(
            f"timeline {text!r}: {part.strip()!r} is not a phase; give {', '.join(TIMELINES)} or phases of at least "
            "2 s such as solo:20,cubic:40,solo:20,prague:40,solo:20"
        )
    return match[1], float(match[2])
