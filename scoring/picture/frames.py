# SPDX-License-Identifier: Apache-2.0
"""Read a screen recording: which source frame and which rendition each recorded frame shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sojourn.scoring.picture import strip
from sojourn.scoring.picture.recording import RecordingError, decode, frame_times, picture_size

UNREAD = -1
_LOCATE_FRAMES = 200  # key frames to search for the strip; with one per 5 s, more than a run


def read_recording(video: Path, start: float = 0.0, box: strip.Box | None = None) -> pl.DataFrame:
    """Return every recorded frame, in order of time: columns t, frame, rendition.

    t is `start` (Unix seconds of frame 0) + pts in seconds; frame is the source frame number printed in the
    strip, rendition the ladder index, both -1 if no strip could be read (page not loaded, covered, torn).
    `box` is the strip's area in the recording; by default it is searched. Raises RecordingError.
    """
    width, height = picture_size(video)
    place = box or find_box(video, width, height) or strip.Box.bottom(width, height)
    return read_strips(video, start, [place])[0]


def read_strips(video: Path, start: float, boxes: Sequence[strip.Box]) -> list[pl.DataFrame]:
    """Return every recorded frame as `read_recording` does, for every strip in `boxes`. Raises RecordingError."""
    times = frame_times(video)
    # Only the strips' rows leave ffmpeg, of tiles those of one row of tiles above those of the next.
    left = min(box.x for box in boxes)
    width = max(box.x + box.width for box in boxes) - left
    bands = sorted({(box.y, box.height) for box in boxes})
    tops = dict(zip(bands, accumulate((rows for _, rows in bands), initial=0), strict=False))
    height = sum(rows for _, rows in bands)
    inner = [strip.Box(box.x - left, tops[box.y, box.height], box.width, box.height) for box in boxes]
    numbers = np.full((len(boxes), len(times), 2), UNREAD, np.int64)
    count = 0
    for count, image in enumerate(decode(video, _grey_rows(bands, left, width), width, height), 1):
        for which, box in enumerate(inner):
            if count <= len(times) and (reading := strip.read(image, box)) is not None:
                numbers[which, count - 1] = reading
    if count != len(times):
        raise RecordingError(f"{video}: {len(times)} frames are listed, {count} were decoded")
    schema = {"t": pl.Float64, "frame": pl.Int64, "rendition": pl.Int64}
    at = np.array(times) + start
    return [pl.DataFrame({"t": at, "frame": read[:, 0], "rendition": read[:, 1]}, schema=schema) for read in numbers]


def _grey_rows(bands: Sequence[tuple[int, int]], left: int, width: int) -> str:
    """Return ffmpeg's filters for bands of rows (first row, number of rows) in grey, one above the other.

    Each is cropped before its conversion: to convert whole pictures takes as long as to decode them.
    """
    parts = [f"crop={width}:{rows}:{left}:{top}:exact=1,format=gray" for top, rows in bands]
    if len(parts) == 1:
        return parts[0]
    copies, cut = ("".join(f"[{name}{n}]" for n in range(len(parts))) for name in ("copy", "band"))
    cropped = ";".join(f"[copy{n}]{part}[band{n}]" for n, part in enumerate(parts))
    return f"split={len(parts)}{copies};{cropped};{cut}vstack={len(parts)}"


def held(shown: pl.DataFrame) -> pl.DataFrame:
    """Add to the frames of a recording, one per change, the column held: s until the next one, 0 for the last."""
    return shown.with_columns(held=pl.col("t").diff().shift(-1).fill_null(0.0))


def unread_share(shown: pl.DataFrame) -> float | None:
    """Return the share of recorded frames whose `frame` is null, by time if they have the column held; None of none."""
    weight = shown["held"].to_numpy() if "held" in shown.columns else np.ones(shown.height)
    whole = float(weight.sum())
    return float(weight[shown["frame"].is_null().to_numpy()].sum()) / whole if whole else None


def presented(lines: Sequence[Mapping[str, Any]], fps: float) -> pl.DataFrame:
    """Return every frame that a player presented, in order of time: columns t (Unix s), frame, height, count.

    `lines` are those of player.jsonl, `fps` the film's frame rate. frame is the film's, counted across loops, count the
    player's number of frames up to it. The last row is the frame on the screen at the last sample.
    """
    rows = [
        (line["t"], round(position * fps), height, count)
        for line in lines
        if line.get("event") == "frame"
        for position, height, count in [line["detail"]]
    ]
    end = max((line["t"] for line in lines if "event" not in line), default=0.0)
    rows += [(end, *rows[-1][1:])] if rows and end > rows[-1][0] else []
    return pl.DataFrame(rows, {"t": pl.Float64, "frame": pl.Int64, "height": pl.Int64, "count": pl.Int64}, orient="row")


def agreement(recorded: pl.DataFrame, logged: pl.DataFrame, heights: Sequence[int], within_s: float) -> float | None:
    """Return the share of a recording's frames that the player's log has, with the same height and at the same time.

    `recorded` has the columns t, frame (unwrapped) and rendition, an index of `heights`; `logged` is that of
    `presented`. The same time is one that differs by at most `within_s` s. None without a frame in both.
    """
    ladder = dict(enumerate(heights))
    first = recorded.drop_nulls("frame").filter(pl.col("frame").diff().fill_null(1) != 0)
    first = first.select("t", "frame", height=pl.col("rendition").replace_strict(ladder, return_dtype=pl.Int64))
    logged = logged.sort("t").select(at="t", number="frame", lines="height")
    # A live stream's position does not begin at 0, and a strip's number begins anew with each loop.
    apart = first.join_asof(logged, left_on="t", right_on="at", strategy="nearest")
    offsets = (apart["number"] - apart["frame"]).drop_nulls().mode()
    if offsets.is_empty():
        return None
    both = first.with_columns(number=pl.col("frame") + offsets.max()).join(logged, on="number", how="left")
    same = (pl.col("height") == pl.col("lines")) & ((pl.col("t") - pl.col("at")).abs() <= within_s)
    return both.filter(same)["frame"].n_unique() / first["frame"].n_unique()


def unwrap(frames: pl.Series, loop: int | None = None) -> pl.Series:
    """Return source frame numbers of a looped clip, counted across loops; unread (-1) becomes null.

    `loop` is the clip's length in frames, by default the largest number seen + 1. A step back by more than
    half a loop is a new loop; a smaller one is a seek and stays a step back.
    """
    read = frames.to_numpy()
    seen = read >= 0
    if not seen.any():
        return pl.Series(frames.name, [None] * len(read), dtype=pl.Int64)
    length = loop or int(read.max()) + 1
    steps = np.diff(read[seen], prepend=read[seen][0])
    steps = (steps + length // 2) % length - length // 2
    out = np.zeros(len(read), np.int64)
    out[seen] = read[seen][0] + np.cumsum(steps)
    return pl.Series(frames.name, out).set(pl.Series(~seen), None)


def find_box(video: Path, width: int, height: int) -> strip.Box | None:
    """Return the strip's area for most of the recording, from its key frames; None if there is none."""
    seen: Counter[strip.Box] = Counter()
    for image, _ in zip(
        decode(video, "format=gray", width, height, "-skip_frame", "nokey"),
        range(_LOCATE_FRAMES),
        strict=False,
    ):
        if box := strip.locate(image):
            seen[box] += 1
    return seen.most_common(1)[0][0] if seen else None
