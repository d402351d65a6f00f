# SPDX-License-Identifier: Apache-2.0
"""Glass to glass: the latency of every frame from a caller's camera to the other's screen.

A page reads the strip of every frame when its camera delivers it, and records the time; the same strip in a recording
of the other screen shows when the frame was displayed. Both times come from the host's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from sojourn.scoring.picture.frames import unwrap
from sojourn.scoring.picture.freezes import with_unread

UNDER_WAY_S = 2.0
"""A frame captured this shortly before the recording's end may still be in flight."""
_SCHEMA = {"number": pl.Int64, "t": pl.Float64, "camera": pl.Int64}


def camera_log(lines: Iterable[Mapping[str, Any]], loop: int) -> pl.DataFrame:
    """Return the capture times of frames: columns t (Unix s), number (in the strip), frame (across loops), by time.

    `lines` are those of player.jsonl; `loop` is the camera's length in frames. The camera stamps frames by its
    own clock; the frame that reached the page soonest gives the offset to Unix time.
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
    return table.with_columns(frame=unwrap(table["number"], loop)).select("t", "number", "frame")


def shown_frames(recording: pl.DataFrame, camera: pl.DataFrame, loop_s: float) -> pl.DataFrame:
    """Return the recording (columns t, frame as in the strip) with the camera's `frame` count and `captured` (Unix s).

    A number means its latest capture before it was displayed, so a delay of `loop_s` or more appears one loop too
    short; null if no strip was read or no such capture is known.
    """
    return (
        recording.rename({"frame": "number"})
        .sort("t")
        .join_asof(
            camera.sort("t").with_columns(captured="t"),
            on="t", by="number", strategy="backward", tolerance=loop_s, check_sortedness=False,
        )
    )  # fmt: skip


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
    grabbed = (
        with_unread(shown)
        .drop_nulls("frame")
        .select("frame", "unread", following="frame")
        .unique("frame", keep="first")
        .sort("frame")
    )
    apart = camera["t"].diff().median() or 1.0
    place = pl.col("frame").rank("ordinal", descending=True).over("following")
    return (
        camera.filter(pl.col("t").is_between(begun, until, closed="left"))
        .join(grabbed, on="frame", how="anti")
        .sort("frame")
        .join_asof(grabbed, on="frame", strategy="forward")
        .filter(pl.col("following").is_null() | (place > (pl.col("unread") / apart).ceil()))
        .select("t", delay_ms=pl.lit(None, dtype=pl.Float64))
    )
