# SPDX-License-Identifier: Apache-2.0
"""How long the victim feels a contender after its end: until the picture and the goodput are as they are alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf

import numpy as np

from sojourn.scoring.evidence import Setting
from sojourn.scoring.metrics import Observations
from sojourn.scoring.packets import per_flow
from sojourn.scoring.picture.freezes import Freeze
from sojourn.scoring.picture.rendition import Segment, dominant, shares
from sojourn.scoring.schema.scores import Metrics, PhaseScores
from sojourn.scoring.schema.windows import Window

HELD_S = 5.0
"""A picture that has its height for this long has recovered, s; goodput is the mean over as much."""
REGAINED_S = 10.0
"""A layer that is back for this long has recovered, s: an SFU may need 5 s to see that the rate does not carry it."""
ENOUGH = 0.95
"""Share of the goodput alone that counts as recovered."""


def recovered(
    rows: Sequence[PhaseScores], setting: Setting, seen: Observations, baseline: Metrics, solo: Sequence[Window]
) -> list[PhaseScores]:
    """Return the rows, those with a contender before a solo phase with their times of recovery.

    `solo` are the windows of the baseline. A recovery that the solo phase does not contain is infinite.
    """
    after = {before.name: (phase.start, phase.end) for before, phase in pairwise(setting.phases)
             if before.contender and not phase.contender}  # fmt: skip
    segments, victim = seen.picture.segments, seen.victim
    height = dominant(shares(segments, solo)) if segments else None
    made = []
    for row in rows:
        times: dict[str, float] = {}
        if window := after.get(row.name):
            if segments and height:
                times["recovery_s"] = picture_s(segments, seen.picture.stalls or (), window, height)
            if victim is not None and baseline.victim_mbps:
                bins = per_flow.goodput_series(victim, *window, 1.0) / 1e6
                times["goodput_recovery_s"] = goodput_s(bins, baseline.victim_mbps)
        made.append(row.model_copy(update={name: round(value, 3) for name, value in times.items()}))
    return made


def picture_s(segments: Sequence[Segment], stalls: Sequence[Freeze], window: Window, height: int) -> float:
    """Return the time from the start of a window (Unix s) until the picture keeps `height` lines without a stall, s.

    Infinite if it does not do so for `HELD_S` before the window's end.
    """
    start, end = window
    last = max([start, *(min(to, end) for since, to in worse(segments, stalls, height) if since < end and to > start)])
    return last - start if last <= end - HELD_S else inf


def regained_s(worse: Iterable[Window], window: Window) -> float:
    """Return the time from the start of a window (Unix s) until a picture is first not `worse` for `REGAINED_S`, s.

    Infinite if that does not happen before the window's end.
    """
    start, end = window
    since = start
    for low_from, low_to in sorted(worse):
        if min(low_from, end) - since >= REGAINED_S:
            break
        since = max(since, low_to)
    return since - start if since <= end - REGAINED_S else inf


def unseen_s(seconds: float) -> float:
    """Return the least time of a recovery, s, that `regained_s` does not find in a window of `seconds`."""
    return max(seconds - REGAINED_S, 0.0)


def worse(segments: Sequence[Segment], stalls: Sequence[Freeze], height: int) -> Iterator[Window]:
    """Yield when the picture has less than `height` lines, or stalls."""
    yield from ((one.start, one.end) for one in segments if one.height < height)
    yield from ((one.onset, one.onset + one.length) for one in stalls)


def goodput_s(mbps: np.ndarray, alone_mbps: float) -> float:
    """Return the time until the victim gets `ENOUGH` of its goodput alone, over `HELD_S`, from the goodput of each s.

    A player that fetches in bursts gets more than that in its first burst, and nothing in the pause after it.
    Infinite if it never does.
    """
    width = round(HELD_S)
    means = np.convolve(mbps, np.ones(width) / width, "valid") if len(mbps) >= width else np.array([])
    (reached,) = np.nonzero(means >= ENOUGH * alone_mbps)
    return float(reached[0]) if reached.size else inf
