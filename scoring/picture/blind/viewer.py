# SPDX-License-Identifier: Apache-2.0
"""Score the recording of a video without a strip: freezes, and the resolution second by second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sojourn.scoring.picture import freezes
from sojourn.scoring.picture.blind import motion, resolution, stills
from sojourn.scoring.picture.blind.place import PictureArea, reported_area
from sojourn.scoring.picture.freezes import Freeze
from sojourn.scoring.picture.recording import RecordingError, picture_size


@dataclass(frozen=True)
class Seen:
    """The observations at `place`; times in Unix s.

    `stalls` and `webrtc` are freezes by the two definitions of sojourn.scoring.picture.freezes. `undecided` are
    (onset, length) of possible freezes that may be still scenes. `heights` maps whole seconds since the recording's
    start to the rendition.
    """

    place: PictureArea
    start: float
    stalls: list[Freeze]
    webrtc: list[Freeze]
    undecided: list[tuple[float, float]]
    heights: dict[int, int]


def watch(video: Path, start: float, lines: Sequence[Mapping[str, Any]] = ()) -> Seen:
    """Score a recording whose first frame was at `start` (Unix s); `lines` are those of player.jsonl.

    Raises RecordingError if ffmpeg cannot read it, or if nothing in it moves like a video.
    """
    seen = motion.locate(video)
    if seen is None:
        raise RecordingError(f"recording {video}: no video moves on it")
    place = reported_area((line["place"] for line in lines if line.get("place")), seen, picture_size(video))
    watched = motion.watch(video, place)
    still = stills.stills(watched, start, lines)
    frozen = [s for s in still if s.frozen]
    changes = freezes.displayed(
        pl.Series(watched.t + start), pl.Series(np.cumsum(stills.new_pictures(watched)), dtype=pl.Int64)
    )
    webrtc = [
        f for f in freezes.webrtc_freezes(changes)
        if any(s.onset < f.onset + f.length and f.onset < s.onset + s.length for s in frozen)
    ]  # fmt: skip
    stalls = [Freeze(s.onset, s.length, "stall", False) for s in frozen if s.length >= freezes.STALL_S]
    undecided = [(s.onset, s.length) for s in still if s.frozen is None]
    return Seen(place, start, stalls, webrtc, undecided, heights(watched, place))


def heights(seen: motion.Motion, place: PictureArea) -> dict[int, int]:
    """Return the most frequent rendition of every second."""
    followed = resolution.follow(seen.looks, seen.heights, resolution.video_lines(place.height, place.width))
    by_second: dict[int, Counter[int]] = {}
    for t, height in zip(seen.look_t, followed, strict=True):
        by_second.setdefault(int(t), Counter())[height] += 1
    return {second: counts.most_common(1)[0][0] for second, counts in by_second.items()}
