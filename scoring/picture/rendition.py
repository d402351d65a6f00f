# SPDX-License-Identifier: Apache-2.0
"""The renditions on the screen over time: segments, changes, drops and heights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import polars as pl

LADDER = (240, 360, 480, 720, 1080)  # picture height of each rendition index of the stand-in clip


@dataclass(frozen=True)
class Segment:
    """`height` lines were shown from `start` to `end` (Unix s)."""

    start: float
    end: float
    height: int


def from_recording(frames: pl.DataFrame, ladder: Sequence[int] = LADDER) -> list[Segment]:
    """Return segments from the columns t and rendition (-1 unread) of `sojourn.scoring.picture.frames.read_recording`.

    A rendition lasts until another is read. Raises ValueError for an index that is not in the ladder.
    """
    read = frames.filter(pl.col("rendition") >= 0)
    if read.height and (top := int(read["rendition"].max())) >= len(ladder):  # type: ignore[arg-type]
        raise ValueError(f"rendition {top} was shown, but the ladder has {len(ladder)} heights")
    samples = [(t, ladder[index]) for t, index in read.select("t", "rendition").iter_rows()]
    return segments_of(samples, float(frames["t"][-1]) if frames.height else 0.0)


def from_player(samples: Sequence[Mapping[str, Any]]) -> list[Segment]:
    """Return segments from the player's samples, or its log of frames: rows with t (Unix s) and height."""
    shown = [(float(s["t"]), int(s["height"])) for s in samples if s.get("height")]
    return segments_of(shown, shown[-1][0] if shown else 0.0)


def segments_of(samples: Sequence[tuple[float, int]], end: float) -> list[Segment]:
    """Return segments from times (Unix s) and heights, of which the last was shown until `end`; 0: no picture."""
    starts = [s for before, s in zip([None, *samples], samples, strict=False) if before is None or before[1] != s[1]]
    ends = [t for t, _ in starts[1:]] + [end]
    return [Segment(t, stop, height) for (t, height), stop in zip(starts, ends, strict=False) if stop > t]


@dataclass(frozen=True)
class HeightChange:
    """A change of the picture's height at `t` (Unix s)."""

    t: float
    before: int
    after: int

    @property
    def drop(self) -> bool:
        """True when the picture lost lines."""
        return self.after < self.before


def changes(segments: Sequence[Segment]) -> list[HeightChange]:
    """Every change of rendition, in order of time."""
    return [HeightChange(b.start, a.height, b.height) for a, b in pairwise(segments)]


def since_recovery(
    segments: Sequence[Segment], window: tuple[float, float], height: int | None
) -> tuple[float, float] | None:
    """Return the part of a window (Unix s) after the picture's last rise; None if that has fewer than `height` lines.

    A window in which the picture falls is returned whole: that is not a recovery.
    """
    start, end = window
    inside = [change for change in changes(segments) if start <= change.t < end]
    if any(change.drop for change in inside):
        return window
    since = max([start, *(change.t for change in inside)])
    shown = next((segment.height for segment in segments if segment.start <= since < segment.end), None)
    return (since, end) if shown == height else None


def shares(segments: Sequence[Segment], windows: Sequence[tuple[float, float]]) -> dict[int, float]:
    """Return the seconds for which every height was shown inside the windows (Unix s), lowest height first."""
    seconds: dict[int, float] = {}
    for segment in segments:
        inside = sum(max(0.0, min(segment.end, end) - max(segment.start, start)) for start, end in windows)
        if inside > 0:
            seconds[segment.height] = seconds.get(segment.height, 0.0) + inside
    return dict(sorted(seconds.items()))


def mean_height(seconds: Mapping[int, float]) -> float | None:
    """Return the time-weighted mean height of `shares`; None if nothing was shown."""
    total = sum(seconds.values())
    return sum(height * s for height, s in seconds.items()) / total if total else None


def dominant(seconds: Mapping[int, float]) -> int | None:
    """Return the height shown for the longest time, the lower one of equals; None if nothing was shown."""
    return max(seconds, key=lambda height: (seconds[height], -height)) if seconds else None
