# SPDX-License-Identifier: Apache-2.0
"""Displayed frame rate and freezes, from the series of (time, source frame number) of a recording.

A frame counts as displayed at the first recorded frame that shows it. If the recorder grabs at a fixed rate, all times
are late by up to one of its frame times (17 ms at 60 fps); if it grabs on change, they are exact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

STALL_S = 0.5
_WINDOW = 30  # intervals averaged by WebRTC
_FEWEST = 5  # intervals before WebRTC judges
_INCREASE_S = 0.150


@dataclass(frozen=True)
class Freeze:
    """The picture stood still from `onset` (Unix s, when its last frame appeared) for `length` s.

    `uncertain`: the strip was partly unreadable, and the length comes from the missing frame numbers.
    """

    onset: float
    length: float
    kind: Literal["webrtc", "stall"]
    uncertain: bool


def displayed(t: pl.Series, frame: pl.Series, fps: float = 30.0) -> pl.DataFrame:
    """Return every change of the picture: columns t, interval, advance, uncertain; the last row may be an open end.

    `t` in Unix s, `frame` the unwrapped source frame number, null where unread; `fps` the clip's frame rate.
    interval (s) is the time since the previous change, advance the number of source frames (0: the same frame until
    the end). Frames that passed while the strip was unreadable may have been displayed: their time is subtracted from
    the interval, at most that of the pictures that the unread grabs may show.
    """
    read = with_unread(pl.DataFrame({"t": t, "frame": frame}), fps).with_columns(pl.col("unread").cum_sum())
    read = read.drop_nulls("frame")
    changes = read.filter(pl.col("frame").diff().fill_null(1) != 0)
    # The end of the recording closes the last interval, so that a final freeze counts.
    changes = pl.concat([changes, read.tail(1)]) if read.height else changes
    advance = pl.col("frame").diff()
    unread = pl.col("unread").diff()
    uncertain = (unread > 0) & (advance > 1)
    return (
        changes.with_columns(interval=pl.col("t").diff(), advance=advance, uncertain=uncertain, unread=unread)
        .with_columns(
            interval=pl.when("uncertain")
            .then((pl.col("interval") - pl.min_horizontal((pl.col("advance") - 1) / fps, "unread")).clip(1 / fps))
            .otherwise("interval"),
            onset=pl.col("t").shift(),
        )
        .slice(1)
        .select("t", "onset", "interval", "advance", "uncertain")
    )


def with_unread(recording: pl.DataFrame, fps: float) -> pl.DataFrame:
    """Return the recording (t in s; frame, null where unread) with `unread`: how much was unread before, s.

    The row of the first grab that was read again has the time since the first unread one, but no more than as many
    frames take at `fps` as grabs were unread, since a grab shows at most one picture. All other rows have 0.
    """
    unread = pl.col("frame").is_null()
    begins = unread & ~unread.shift(fill_value=True)
    before = unread.shift(fill_value=False) & ~unread
    since, grabs = (pl.when(begins).then(it).forward_fill() for it in (pl.col("t"), unread.cum_sum() - 1))
    possible = pl.min_horizontal(pl.col("t") - since, (unread.cum_sum() - grabs) / fps)
    return recording.with_columns(unread=pl.when(before).then(possible).fill_null(0.0))


def stalls(changes: pl.DataFrame, shortest: float = STALL_S) -> list[Freeze]:
    """Return every interval of `displayed` that lasts `shortest` s or more."""
    long = changes.filter(pl.col("interval") >= shortest)
    return [Freeze(onset, length, "stall", unsure) for onset, length, unsure in _rows(long)]


def webrtc_freezes(changes: pl.DataFrame) -> list[Freeze]:
    """Return every interval d with d >= max(3 avg, avg + 150 ms), avg over the last 30 intervals.

    W3C "Identifiers for WebRTC's Statistics API", freezeCount. As in libwebrtc, the average includes d,
    and the first four intervals are not judged.
    """
    recent: deque[float] = deque(maxlen=_WINDOW)
    frozen = []
    for onset, interval, unsure in _rows(changes):
        recent.append(interval)
        mean = sum(recent) / len(recent)
        if len(recent) >= _FEWEST and interval >= max(3 * mean, mean + _INCREASE_S):
            frozen.append(Freeze(onset, interval, "webrtc", unsure))
    return frozen


def frozen_s(freezes: Iterable[Freeze], start: float, end: float) -> float:
    """Return the seconds between `start` and `end` (Unix s) inside the freezes."""
    return sum(max(0.0, min(end, f.onset + f.length) - max(start, f.onset)) for f in freezes)


def moving(freezes: Iterable[Freeze], windows: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Return the parts of the windows (Unix s) outside all freezes, in order of time."""
    still = sorted((f.onset, f.onset + f.length) for f in freezes)
    for start, end in windows:
        at = start
        for onset, over in still:
            if over > at and onset < end:
                if onset > at:
                    yield at, onset
                at = min(over, end)
        if at < end:
            yield at, end


def begun(freezes: Iterable[Freeze], start: float, end: float) -> int:
    """Return the number of freezes that begin between `start` (inclusive) and `end` (exclusive)."""
    return sum(start <= f.onset < end for f in freezes)


def fps_series(changes: pl.DataFrame, edges: Sequence[float]) -> list[float]:
    """Return the displayed frames per second in every bin between neighbouring `edges` (Unix s)."""
    shown = changes.filter(pl.col("advance") != 0)["t"].to_numpy()
    counts, bounds = np.histogram(shown, edges)
    return [float(value) for value in counts / np.diff(bounds)]


def speed(changes: pl.DataFrame, start: float, end: float, fps: float = 30.0) -> float:
    """Return the media seconds displayed per second between `start` and `end`: 1 in real time, 0 frozen."""
    inside = changes.filter(pl.col("t").is_between(start, end, closed="left"), pl.col("advance") > 0)
    return float(inside["advance"].sum()) / fps / (end - start)


def _rows(changes: pl.DataFrame) -> Iterable[tuple[float, float, bool]]:
    return changes.select("onset", "interval", "uncertain").iter_rows()
