# SPDX-License-Identifier: Apache-2.0
"""Glass to glass: how long each frame took from a caller's camera to the other's screen.

A page reads the strip of each frame as its camera delivers it and notes the time; a recording of the other screen tells
by the same strip when the frame was shown. Both times are of one clock, that of the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from sojourn.scoring.picture.frames import unwrap

UNDER_WAY_S = 2.0
"""A frame captured so shortly before the recording's end may still be on its way."""
_SCHEMA = {"number": pl.Int64, "t": pl.Float64, "camera": pl.Int64}


def camera_log(lines: Iterable[Mapping[str, Any]], loop: int) -> pl.DataFrame:
    """When each frame was captured: columns t (Unix s), number (in the strip), frame (ever rising), in order of time.

    `lines` are those of player.jsonl; `loop` is the camera's length in frames. The camera stamps frames by a clock of
    its own: where it stands against Unix time is taken from the frame that reached the page soonest.
    """
    rows: list[tuple[int, float, int]] = []
    seen = [entry for line in lines if line.get("event") == "camera" for entry in line["detail"]]
    camera, start = 0, 0
    for i, (_, stamp, _) in enumerate([*seen, (0, -1, 0)]):
        if i and stamp < seen[i - 1][1]:  # a clock that goes back is another camera's
            part = seen[start:i]
            ahead = min(arrived / 1e3 - at / 1e6 for _, at, arrived in part)
            rows += [(number, at / 1e6 + ahead, camera) for number, at, _ in part]
            camera, start = camera + 1, i
    table = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    return table.with_columns(frame=unwrap(table["number"], loop)).select("t", "number", "frame")


def shown_frames(recording: pl.DataFrame, camera: pl.DataFrame, loop_s: float) -> pl.DataFrame:
    """The recording (columns t, frame as in the strip) with `frame` as the camera counts and `captured` (Unix s).

    A number stands for its newest capture before it was shown, so a delay of `loop_s` or more shows as one round less;
    null where no strip was read or no such capture is known.
    """
    return (
        recording.rename({"frame": "number"})
        .sort("t")
        .join_asof(
            camera.sort("t").with_columns(captured="t"),
            on="t", by="number", strategy="backward", tolerance=loop_s, check_sortedness=False,
        )
    )  # fmt: skip


def frame_delays(shown: pl.DataFrame, camera: pl.DataFrame | None = None) -> pl.DataFrame:
    """Capture-to-display latency of every frame: columns t (Unix s of its capture), delay_ms, null if never shown.

    A frame first recorded at one grab appeared at some time since the grab before: the middle of the two is taken;
    where that grab could not be read the latency is not known, and the frame is left out. `camera` is the log of all
    frames (`camera_log`): of those captured since the recording began that which is in no grab was never shown, unless
    it may have been in one that could not be read, or was under way at the end. Without it those shown alone are told.
    """
    latest = shown.with_columns(grab=pl.col("t").diff()).filter(pl.col("frame").diff() != 0)
    appeared = pl.col("t") - pl.col("grab") / 2
    delays = latest.select(t="captured", delay_ms=(appeared - pl.col("captured")) * 1e3)
    if camera is None or not shown.height:
        return delays
    return pl.concat([delays, _never_shown(shown, camera)]).sort("t")


def _never_shown(shown: pl.DataFrame, camera: pl.DataFrame) -> pl.DataFrame:
    """The frames that no grab holds, as `frame_delays` has them."""
    begun, ended = shown["t"][0], shown["t"][-1]
    newest = shown["captured"].max()
    until = max(ended - UNDER_WAY_S, begun if newest is None else newest)
    grabbed = (
        shown.with_columns(unread=pl.col("frame").is_null().cum_sum())
        .drop_nulls("frame")
        .select("frame", after_unread=pl.col("unread").diff().fill_null(0) > 0)
        .unique("frame", keep="first")
        .sort("frame")
    )
    return (
        camera.filter(pl.col("t").is_between(begun, until, closed="left"))
        .join(grabbed, on="frame", how="anti")
        .sort("frame")
        .join_asof(grabbed, on="frame", strategy="forward")
        .filter(~pl.col("after_unread").fill_null(False))
        .select("t", delay_ms=pl.lit(None, dtype=pl.Float64))
    )
