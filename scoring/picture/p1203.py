# SPDX-License-Identifier: Apache-2.0
"""Phases of a run as inputs of ITU-T P.1203, mode 0: the displayed heights per second, and the stalls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.scoring.schema.scores import PhaseScores, Scores

#: Position of a stall that continues from the phase before, s: at 0, a stall is initial loading.
_CONTINUED_S = 0.001
#: A last second of which more than this share has frames has a score O.22.
_WHOLE = 0.99


def report(scores: Scores, phase: PhaseScores, rates_bps: Mapping[int, float], fps: float) -> dict[str, Any]:
    """Return the input report (P.1203, 7.2) of one phase: I13 the segments, I23 the stalls, IGen a PC of 1280x720.

    `rates_bps` is the bit rate of each height of the ladder. Times are media time in s from the phase's start, as in
    the recommendation: a stall takes none. Every segment has one height; a second in which the height changed
    counts for the nearer one. There is no audio. A phase begins in mid-play, so none of its stalls is initial loading.
    Raises ValueError if no heights were recorded.
    """
    series = scores.series
    if series.height is None or not rates_bps:
        raise ValueError("its heights or their bit rates were not recorded")
    # A stall may begin in the previous phase, or continue in the next.
    cut = [(max(f.t, phase.start), min(f.t + f.length, phase.end)) for f in scores.freezes if f.kind == "stall"]
    stalls = [(start, end) for start, end in cut if end > start]

    def media(t: float) -> float:
        stood = sum(min(max(t - start, 0), end - start) for start, end in stalls)
        return round(t - phase.start - stood, 3)

    segments: list[dict[str, Any]] = []
    # A step is of the phase that has its middle; the first and the last are cut, or extended, at the phase's ends.
    halves = ((t + series.step_s / 2, height) for t, height in zip(series.t, series.height, strict=True))
    steps = [(middle - series.step_s / 2, height) for middle, height in halves if phase.start <= middle < phase.end]
    ends = [phase.start, *(t for t, _ in steps[1:]), phase.end]
    for (_, height), start, end in zip(steps, map(media, ends), map(media, ends[1:]), strict=False):
        if height is None:
            continue
        nearest = min(rates_bps, key=lambda known: abs(known - height))
        resolution = f"{2 * round(nearest * 8 / 9)}x{nearest}"
        if segments and segments[-1]["resolution"] == resolution:
            segments[-1]["duration"] = round(end - segments[-1]["start"], 3)
        elif end > start:
            segments.append({
                "codec": "h264", "start": start, "duration": round(end - start, 3), "resolution": resolution,
                "bitrate": rates_bps[nearest] / 1e3, "fps": fps,
            })  # fmt: skip
    return {
        "IGen": {"displaySize": "1280x720", "device": "pc"},
        "I11": {"streamId": 1, "segments": []},
        "I13": {"streamId": 1, "segments": segments},
        "I23": {
            "streamId": 1,
            "stalling": _in_mid_play([(media(start), round(end - start, 3)) for start, end in stalls], segments),
        },
    }


def _in_mid_play(stalls: Sequence[tuple[float, float]], segments: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """Return stalls (position, length) so that the reference software rates each as one in mid-play.

    `p1203_standalone.py` takes the first stall for initial loading: it moves all stalls until that one is at 0, unless
    one of zero length is there. `p1203Pq.py` ignores a stall behind the last second that has a score O.22.
    """
    if not stalls:
        return []
    last = _scored_s(segments)
    return [[0, 0], *([max(min(at, last), _CONTINUED_S), length] for at, length in stalls)]


def _scored_s(segments: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of scores O.22, one per second of frames, as in `p1203Pv.py` and `measurementwindow.py`."""
    played: float = sum(int(it["duration"] * it["fps"]) / it["fps"] for it in segments)
    return math.ceil(played) if played % 1 > _WHOLE else math.floor(played)
