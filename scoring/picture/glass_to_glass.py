# SPDX-License-Identifier: Apache-2.0
"""Glass to glass: the latency of every frame from a caller's camera to the other's screen.

A page reads the strip of every frame when its camera delivers it, and records the time; the same strip in a recording
of the other screen shows when the frame was displayed. Both times come from the host's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from sojourn.scoring.packets.sojourn import UNDER_WAY_S
from sojourn.scoring.picture.frames import unwrap
from sojourn.scoring.picture.freezes import STALL_S, with_unread

_NEXT = 3  # frames: a screen skips one or two of them
_SCHEMA = {"number": pl.Int64, "t": pl.Float64, "camera": pl.Int64}


def camera_log(lines: Iterable[Mapping[str, Any]], loop: int) -> pl.DataFrame:
    """Return the capture times of frames: columns t (Unix s), number (in the strip), frame (across loops), by time.

    `lines` are those of player.jsonl; `loop` is the number of the camera's pictures. Chromium sends the first one twice
    in every loop; the log has it once. The camera stamps frames by its own clock; the frame that reached the page
    soonest gives the offset to Unix time.
    """
    rows: list[tuple[int, float, int]] = []
    seen = [entry for line in lines if line.get("event") == "camera" for entry in line["detail"]]
    camera, start = 0, 0
    for i, (_, stamp, _) in enumerate([*seen, (0, -1, 0)]):
        if i and stamp < seen[i - 1][1]:  # a clock that goes back belongs to another camera
            part = seen[start:i]
            ahead = min(arrived / 1e3 - at / 1e6 for _, at, arrived in part)
            rows += [(number, at / 1e6 + ahead, camera) for number, at, _ in part]
            camera, start = camera + 1, i
    table = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    counted = table.with_columns(frame=unwrap(table["number"], loop)).select("t", "number", "frame")
    return counted.filter(pl.col("frame").diff().fill_null(1) != 0)


def shown_frames(recording: pl.DataFrame, camera: pl.DataFrame, loop: int, fps: float) -> pl.DataFrame:
    """Return the recording (columns t, frame as in the strip) with the camera's `frame` count and `captured` (Unix s).

    `loop` is the number of the camera's pictures. Frames are shown in order: a number means its first capture since
    that of the picture before. After a stall, a decoder goes on with one of the next frames or with a key frame of the
    present, so any other number then means its latest capture before it was displayed, as at the beginning. Null if no
    strip was read or no such capture is known.
    """
    read = pl.when(pl.col("number") >= 0).then("number")
    new = read.is_not_null() & read.ne_missing(read.forward_fill().shift())
    shown = recording.rename({"frame": "number"}).sort("t", maintain_order=True).with_columns(picture=new.cum_sum())
    pictures = shown.unique("picture", keep="first", maintain_order=True).join_asof(
        camera, on="t", by="number", tolerance=(loop + 1) / fps, check_sortedness=False
    )
    frames = pl.Series(_in_order(pictures.select("t", "frame").iter_rows(), loop), dtype=pl.Int64)
    captured = camera.unique("frame", keep="last").select("frame", captured="t")
    known = pictures.select("picture", frame=frames).join(captured, on="frame", how="left")
    return (
        shown.join(known, on="picture", how="left", maintain_order="left")
        .with_columns(pl.when(pl.col("number") >= 0).then(pl.col("frame", "captured")))
        .drop("picture")
    )


def _in_order(pictures: Iterable[tuple[float, int | None]], loop: int) -> Iterator[int | None]:
    """Yield the frame of every picture, as in `shown_frames`, from its time and the latest frame with its number."""
    before: tuple[float, int] | None = None
    for t, frame in pictures:
        if frame is not None and before is not None and frame > before[1]:
            passed = (frame - before[1]) % loop
            if passed <= _NEXT or t - before[0] < STALL_S:
                frame = before[1] + passed
        if frame is not None:
            before = t, frame
        yield frame


def frame_delays(shown: pl.DataFrame, camera: pl.DataFrame | None = None, *, on_change: bool = False) -> pl.DataFrame:
    """Return the capture-to-display latency of every frame: columns t (Unix s of capture), delay_ms, null: never shown.

    A frame first seen in one grab appeared at some time since the previous grab; the middle is used, or with
    `on_change`, where a change causes the grab, the grab's own time. If the previous grab was unreadable, the latency
    is unknown, and the frame is skipped. `camera` is the log of all frames (`camera_log`): frames captured after the
    recording began that are in no grab were never shown, unless they may be in an unreadable grab or were in flight at
    the end: of a gap of frames, as many of the last ones as fit into the time that was unreadable. Without it, only
    displayed frames are returned.
    """
    latest = shown.with_columns(grab=pl.col("t").diff()).filter(pl.col("frame").diff() != 0)
    appeared = pl.col("t") - (0.0 if on_change else pl.col("grab") / 2)
    delays = latest.select(t="captured", delay_ms=(appeared - pl.col("captured")) * 1e3)
    if camera is None or not shown.height:
        return delays
    return pl.concat([delays, _never_shown(shown, camera)]).sort("t")


def _never_shown(shown: pl.DataFrame, camera: pl.DataFrame) -> pl.DataFrame:
    """Return the frames that are in no grab, as in `frame_delays`."""
    begun, ended = shown["t"][0], shown["t"][-1]
    newest = shown["captured"].max()
    until = max(ended - UNDER_WAY_S, begun if newest is None else newest)
    apart = float(camera["t"].diff().median() or 1.0)  # type: ignore[arg-type]
    grabbed = (
        with_unread(shown, 1 / apart)
        .drop_nulls("frame")
        .select("frame", "unread", following="frame")
        .unique("frame", keep="first")
        .sort("frame")
    )
    place = pl.col("frame").rank("ordinal", descending=True).over("following")
    return (
        camera.filter(pl.col("t").is_between(begun, until, closed="left"))
        .join(grabbed, on="frame", how="anti")
        .sort("frame")
        .join_asof(grabbed, on="frame", strategy="forward")
        .filter(pl.col("following").is_null() | (place > (pl.col("unread") / apart).ceil()))
        .select("t", delay_ms=pl.lit(None, dtype=pl.Float64))
    )
