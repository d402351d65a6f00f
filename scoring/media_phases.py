# SPDX-License-Identifier: Apache-2.0
"""What a cell's media gets alone and while each flow runs: rate, time in the queue, frames. Pure.

Media is the way down of a call between browsers, or the video of a program that is the cell's first flow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sojourn.bottleneck.cell import Cell
from sojourn.scoring.packets.sojourn import UNDER_WAY_S
from sojourn.scoring.schema.cell_scores import MediaPhase
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.statistics.numbers import rank
from sojourn.scoring.transport.geometry import stop_s
from sojourn.scoring.transport.rates import progress, rate_mbps

PROGRAMS = ("scream", "scream2", "scream2-call", "webrtc")
"""The contenders whose first flow is media."""
SETTLING_S = 5.0
"""What is not scored at the beginning of each phase, s."""
IN_TIME_US = 400_000
"""A frame is in time if it arrives within 400 ms of its capture, as those of calls that are recorded."""
_IP_UDP_BYTES = 28


def media_phases(
    cell: Cell, flows: pl.DataFrame, sent: pl.DataFrame | None, pictures: pl.DataFrame | None
) -> list[MediaPhase]:
    """Return the phase alone and that of every other flow; none without media that is alone first.

    A phase ends at the latest `UNDER_WAY_S` before the cell: what was sent later may not have arrived yet. One that is
    too short for that is left out.

    Args:
        flows: the rows of FLOWS.
        sent: the rows of CROSSINGS of a call between browsers, or those of PACKETS.
        pictures: the rows of PICTURES of a call.
    """
    program = bool(cell.flows) and cell.flows[0].contender in PROGRAMS
    others = list(enumerate(cell.flows))[program:]
    begins = min((flow.start_s for _, flow in others), default=cell.seconds)
    if sent is None or not (program or (cell.call and "talk" in sent.columns)) or begins <= SETTLING_S:
        return []
    media = _of_program(cell, sent) if program else sent.filter(pl.col("talk") == 0)
    frames = None if pictures is None else pictures.filter(pl.col("talk") == 0)
    phases = [MediaPhase(contender=None, **_scores(media, frames, (SETTLING_S, begins)))]
    for n, flow in others:
        window = flow.start_s + SETTLING_S, min(stop_s(flow, cell.seconds), cell.seconds - UNDER_WAY_S)
        if window[1] <= window[0]:
            continue
        curve = progress(flows.filter(pl.col("flow") == n), flow.start_s)
        goodput = round(rate_mbps(*curve, *window), 4)
        scores = _scores(media, frames, window)
        phases.append(MediaPhase(contender=flow.contender, contender_mbps=goodput, **scores))
    return phases


def _of_program(cell: Cell, packets: pl.DataFrame) -> pl.DataFrame:
    """Return the packets of the first flow, with its times in the queue: what exceeds the path's delay."""
    return packets.filter(pl.col("flow") == 0).select(
        "t_s",
        bytes=pl.col("bytes") - _IP_UDP_BYTES,
        queue_us=pl.col("delay_us") - cell.flows[0].rtt_us / 2,
        marked=pl.lit(None, pl.Int64),
    )


def _scores(media: pl.DataFrame, frames: pl.DataFrame | None, window: Window) -> dict[str, Any]:
    inside = media.filter(_within(window))
    came = inside.drop_nulls("queue_us")
    queue_ms = came["queue_us"].to_numpy() / 1e3
    lost = inside.height - came.height
    marked = came["marked"].mean()
    return {
        "window_s": window,
        "mbps": round(float(came["bytes"].sum()) * 8 / (window[1] - window[0]) / 1e6, 4),
        "loss": round(lost / inside.height, 6) if inside.height else None,
        "queue_p50_ms": rank(queue_ms, 50, lost),
        "queue_p99_ms": rank(queue_ms, 99, lost),
        **({} if marked is None else {"ce_share": round(float(marked), 6)}),  # type: ignore[arg-type]
        **dict(_of_frames(frames, window)),
    }


def _of_frames(frames: pl.DataFrame | None, window: Window) -> Iterator[tuple[str, float | None]]:
    if frames is None:
        return
    taken = frames.filter(_within(window))
    came = taken.drop_nulls("delay_us")["delay_us"]
    yield "frames", taken.height
    in_time = int((came <= IN_TIME_US).sum())
    yield "frames_in_time", round(in_time / taken.height, 6) if taken.height else None
    yield "frame_p50_ms", rank(came.to_numpy() / 1e3, 50, taken.height - came.len())


def _within(window: Window) -> pl.Expr:
    return pl.col("t_s").is_between(*window, closed="left")
