# SPDX-License-Identifier: Apache-2.0
"""The phases of an experiment: when the victim is alone, and when which contender competes."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.traffic.load import LoadFlow, parse_load

#: Each phase takes at least 2 s, and one row in every table.
_MOST_PHASES = 1000
TIMELINES = {"published": (60, 120, 60), "steady": (60, 40, 20), "short": (20, 40, 20)}
"""Lengths in s: first solo phase, contender, least solo phase after a contender. `published` is the timeline of the
document "L4S Tests" for its three video services; `steady` has 60 s of baseline; `short` is for real time."""
LONGER_S = 60.0
"""How much longer than its length a solo phase of `at least` that length may last, s."""


@dataclass(frozen=True)
class Phase:
    """One phase: its name in every table, its contenders (see `sojourn.traffic.load`; None: solo), its length in s.

    `at_least`: a solo phase lasts until the victim has recovered, see `sojourn.harness.experiment.recording`.
    """

    name: str
    contender: str | None
    seconds: int | float
    at_least: bool = False

    @property
    def load(self) -> tuple[LoadFlow, ...]:
        """The flows that compete in it, none in a solo phase."""
        return parse_load(self.contender) if self.contender else ()


def parse_timeline(text: str, contenders: tuple[str, ...] = ("cubic", "prague")) -> list[Phase]:
    """Parse a timeline.

    `text` is the name of one in TIMELINES, or explicit phases such as `solo:20,cubic:40,solo:20+,prague:40,solo:20+`
    (seconds; `+`: at least). A named timeline takes its contenders from `contenders`, in that order, with a solo phase
    before, between and after; those after a contender are at least as long. Raises ValueError with one line that says
    what would be right.
    """
    if text in TIMELINES:
        solo, contended, between = TIMELINES[text]
        parts: list[tuple[str, float, bool]] = [("solo", solo, False)]
        for contender in contenders:
            parts += [(contender, contended, False), ("solo", between, True)]
    else:
        if text.count(",") >= _MOST_PHASES:
            raise ValueError(f"a timeline of {text.count(',') + 1} phases; give at most {_MOST_PHASES}")
        parts = [_part(part, text) for part in text.split(",")]
    if parts[0][0] != "solo":
        raise ValueError(f"timeline {text!r}: the first phase must be solo, the baseline of every harm figure")
    return _numbered(parts)


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
    return _numbered([(phase.contender or "solo", phase.seconds, phase.at_least) for phase in now])


def _numbered(parts: Sequence[tuple[str, float, bool]]) -> list[Phase]:
    """Return the phases of (solo or contender, seconds, at least); repeated names are numbered."""
    counts = Counter(name for name, *_ in parts)
    seen: dict[str, int] = {}
    phases = []
    for name, seconds, at_least in parts:
        seen[name] = seen.get(name, 0) + 1
        numbered = f"{name}-{seen[name]}" if counts[name] > 1 else name
        phases.append(Phase(numbered, None if name == "solo" else name, seconds, at_least))
    return phases


def _part(part: str, text: str) -> tuple[str, float, bool]:
    match = re.fullmatch(r"\s*([^:,\s]+)\s*:\s*(\d+(?:\.\d+)?)\s*s?\s*(\+?)\s*", part)
    if match and match[3] and match[1] != "solo":
        raise ValueError(f"timeline {text!r}: {part.strip()!r}: only solo phases take +; give {match[1]}:{match[2]}")
    if not match or float(match[2]) < 2:
        raise ValueError(
            f"timeline {text!r}: {part.strip()!r} is not a phase; give {', '.join(TIMELINES)} or phases of at least "
            "2 s such as solo:20,cubic:40,solo:20,prague:40,solo:20"
        )
    return match[1], float(match[2]), bool(match[3])
