# SPDX-License-Identifier: Apache-2.0
"""Still periods of a recording without a strip, from its motion and the player's frame count.

The recorder's encoder refines a still picture for a third of a second, by less and less. A *new picture* moves more
than the recorded frame before it, or as much as the ones before. A period without a new picture is a freeze if motion
stops or resumes in mid-scene. If it begins and ends with a cut, it may also be a still scene: the player's count of
displayed frames decides; without that count, the period is undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.scoring.picture.blind.motion import Motion

Floats = npt.NDArray[np.float64]

SHORTEST_S = 0.2
"""The shortest period without a new picture to examine, s: dropped frames cause shorter ones."""
_LEAST = 0.15  # levels moved, of a new picture
_RISE, _RISE_BY = 1.5, 0.12  # how much more than the recorded frame before
_ALIKE = 0.45  # of the motion just before, for consecutive new pictures
_AFTER_CUT = 0.2  # of a cut just before: less is noise of codec and recorder in a still scene
_BEFORE = 6  # recorded frames that are just before
_CUT = 0.6  # of blocks touched, at least, by a cut
_CUT_TIMES, _CUT_WIDER = 1.8, 3.0  # moved, and touched, above the scene's level
_PLAYING_SHARE = 0.25  # of the frames of a period: if this many were displayed, the film played during a part of it
_NEAR_S = 0.12  # tolerance between the player's samples and a visible end
_COUNTED_S = 0.75  # minimum period with enough of the player's samples, four per second


@dataclass(frozen=True)
class Still:
    """No new picture from `onset` for `length` s (Unix s, s); `frozen` None: may be a still scene."""

    onset: float
    length: float
    frozen: bool | None


def new_pictures(motion: Motion) -> npt.NDArray[np.bool_]:
    """Return for every recorded frame whether it shows a new picture."""
    moved = motion.moved
    before = np.concatenate([[0.0], moved[:-1]])
    padded = np.concatenate([np.zeros(_BEFORE), moved])
    recent = np.sort(np.lib.stride_tricks.sliding_window_view(padded, _BEFORE)[:-1], axis=1)
    # The maximum may be a single cut with the same motion before and after.
    like_before = (moved >= _ALIKE * recent[:, -2]) & (recent[:, -2] >= _LEAST) & (moved >= _AFTER_CUT * recent[:, -1])
    rises = (moved >= _RISE * before + _RISE_BY) & ~motion.key
    is_new = (moved >= _LEAST) & (rises | like_before)
    is_new[0] = True
    return np.asarray(is_new)


def stills(motion: Motion, start: float, samples: Sequence[Mapping[str, Any]] = ()) -> list[Still]:
    """Return the periods of at least `SHORTEST_S` without a new picture, in order; `start` is the first frame's Unix s.

    `samples` are those of player.jsonl, whose frame counts decide if the picture does not.
    """
    shown = np.flatnonzero(new_pictures(motion))
    ends = np.append(motion.t[shown[1:]], motion.t[-1])
    long = ends - motion.t[shown] >= SHORTEST_S
    count = _Count.of(samples, start)
    quiet = []
    for n in map(int, np.flatnonzero(long)):
        onset, end = float(motion.t[shown[n]]), float(ends[n])
        # Motion between two adjacent periods was a still scene that the encoder refined.
        chained = any(long[k] for k in (n - 1, n + 1) if 0 <= k < len(long))
        scene = chained or (_begins_with_a_cut(motion, shown, n) and _ends_with_a_cut(motion, shown, n))
        if count is None:
            quiet.append(Still(start + onset, end - onset, None if scene else True))
        elif end - onset >= _COUNTED_S and (scene or count.share(onset, end) >= _PLAYING_SHARE):
            frozen = [_snapped(it, (onset, end)) for it in count.frozen(onset, end)]
            quiet += [Still(start + a, b - a, True) for a, b in frozen]
            if not frozen:
                quiet.append(Still(start + onset, end - onset, False))
        elif scene and count.share(onset, end) >= _PLAYING_SHARE:
            quiet.append(Still(start + onset, end - onset, False))
        else:
            quiet.append(Still(start + onset, end - onset, True))
    if count is not None:
        quiet += _gaps_to_freezes(quiet, count, motion.t[shown], start)
    return sorted(quiet, key=lambda still: still.onset)


def _snapped(still: tuple[float, float], seen: tuple[float, float]) -> tuple[float, float]:
    """Return start and end of a freeze that the player reported (onset, length), moved to visible ends nearby."""
    ends = still[0], still[0] + still[1]
    first, last = (s if abs(t - s) <= _NEAR_S else t for t, s in zip(ends, seen, strict=True))
    return first, last


def _gaps_to_freezes(stills: Sequence[Still], count: _Count, new: Floats, start: float) -> list[Still]:
    """Return freezes reported by the player in which codec and recorder noise looked like new pictures."""
    more = []
    for at, length in count.frozen(-np.inf, np.inf):
        seen = np.count_nonzero((new > at + 1 / count.fps) & (new < at + length))
        apart = all(start + at >= s.onset + s.length or s.onset >= start + at + length for s in stills if s.frozen)
        if apart and seen <= _PLAYING_SHARE * count.fps * length:
            more.append(Still(start + at, length, True))
    return more


def _begins_with_a_cut(motion: Motion, shown: npt.NDArray[np.int64], n: int) -> bool:
    """Return whether a new picture within 0.4 s before number `n` was a cut, or the recording's first."""
    now = motion.t[shown[n]]
    recent = [k for k in range(max(0, n - 12), n + 1) if now - motion.t[shown[k]] <= 0.4]
    if recent[0] == 0:
        return True
    for k in recent:
        before = [i for i in shown[max(0, k - 12) : k] if motion.t[shown[k]] - motion.t[i] <= 0.5]
        if _is_cut(motion, shown[k], before):
            # New pictures after a cut to a still scene are codec noise.
            later = motion.moved[shown[k + 1 : n + 1]]
            if not len(later) or later.max() < 0.4 * motion.moved[shown[k]]:
                return True
    return False


def _ends_with_a_cut(motion: Motion, shown: npt.NDArray[np.int64], n: int) -> bool:
    """Return whether the new picture after number `n` is a cut, or missing."""
    if n + 1 >= len(shown):
        return True
    at = shown[n + 1]
    after = [i for i in shown[n + 2 : n + 14] if motion.t[i] - motion.t[at] <= 0.5]
    return _is_cut(motion, at, after)


def _is_cut(motion: Motion, at: int, neighbours: Sequence[int]) -> bool:
    """Return whether recorded frame `at` is a cut, compared with the new pictures `neighbours` of its scene."""
    if motion.touched[at] < _CUT or not len(neighbours):
        return bool(motion.touched[at] >= _CUT)
    moved, touched = (float(np.median(of[neighbours])) for of in (motion.moved, motion.touched))
    return bool(motion.moved[at] >= _CUT_TIMES * moved or motion.touched[at] >= _CUT_WIDER * touched)


@dataclass(frozen=True)
class _Count:
    """The player's count of displayed frames: `t` in s from the recording's start; `fps` while it plays.

    `waits` are (from, to) in s between its events "waiting" and "playing".
    """

    t: Floats
    shown: Floats
    fps: float
    waits: list[tuple[float, float]]

    @classmethod
    def of(cls, lines: Sequence[Mapping[str, Any]], start: float) -> _Count | None:
        """Return the counts; None if the player reported none, or constant ones."""
        counted = [s for s in lines if s.get("totalFrames") is not None]
        t = np.array([s["t"] - start for s in counted], np.float64)
        shown = np.array([s["totalFrames"] - (s.get("droppedFrames") or 0) for s in counted], np.float64)
        steps = np.diff(t) > 0.01
        if steps.sum() < 2:
            return None
        rates = np.diff(shown)[steps] / np.diff(t)[steps]
        playing = rates[rates > 1]
        if not len(playing):
            return None
        waits: list[tuple[float, float]] = []
        began: float | None = None
        for line in lines:
            if line.get("event") == "waiting":
                began = line["t"] - start
            elif line.get("event") == "playing" and began is not None:
                waits.append((began, line["t"] - start))
                began = None
        return cls(t, shown, float(np.median(playing)), waits)

    def share(self, onset: float, end: float) -> float:
        """Return the share of frames displayed from `onset` to `end` (s)."""
        first, last = np.interp([onset, end], self.t, self.shown)
        return float(last - first) / (self.fps * (end - onset))

    def frozen(self, onset: float, end: float) -> list[tuple[float, float]]:
        """Return (onset, length) in s of still periods of at least `SHORTEST_S` between `onset` and `end`."""
        frozen_spans = [(max(a, onset), min(b, end)) for a, b in self._by_counts()]
        return [(a, b - a) for a, b in frozen_spans if b - a >= SHORTEST_S]

    def _by_counts(self) -> list[tuple[float, float]]:
        """Return start and end of runs of sampling intervals with missing frames; a wait has both exactly."""
        seconds, frame = np.diff(self.t), 1 / self.fps
        lack = seconds - np.diff(self.shown) * frame  # s in which nothing new was shown
        runs = np.flatnonzero(np.diff(np.concatenate([[0], lack > np.maximum(2.5 * frame, 0.1 * seconds), [0]])))
        spans = []
        for first, past in zip(runs[::2], runs[1::2], strict=True):
            last = past - 1
            if first == last and lack[first] < 0.9 * seconds[first]:
                middle = (self.t[first] + self.t[past]) / 2
                span = middle - lack[first] / 2, middle + lack[first] / 2
            else:
                # Frames missing in the neighbouring intervals belong to the run; alone, they are too few.
                earlier = lack[first - 1] if first and lack[first] > seconds[first] - frame else 0.0
                later = lack[past] if past < len(lack) and lack[last] > seconds[last] - frame else 0.0
                span = (
                    self.t[past] - lack[last] - lack[first:last].sum()
                    if first == last
                    else self.t[first + 1] - lack[first],
                    self.t[last] + lack[last],
                )
                span = span[0] - max(0.0, earlier), span[1] + max(0.0, later)
            waits = [(a - frame, b) for a, b in self.waits if a < span[1] and b > span[0]]
            spans.append((float(waits[0][0]), float(waits[-1][1])) if waits else (float(span[0]), float(span[1])))
        return spans
