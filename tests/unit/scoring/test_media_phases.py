# SPDX-License-Identifier: Apache-2.0
"""What media gets alone and with each flow, by hand."""

from __future__ import annotations

from math import inf

import polars as pl

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Direction, Hop
from sojourn.scoring.media_phases import media_phases
from sojourn.scoring.schema.columns import CROSSINGS, FLOWS, PACKETS, PICTURES
from sojourn.traffic.spec import Call, Flow

HOP = Hop(down=Direction(rate_bps=10_000_000, qdisc="dualpi2"))  # type: ignore[arg-type]
PRAGUE = Flow(contender="prague", rtt_us=20_000, start_s=10, stop_s=20)
CUBIC = Flow(contender="cubic", rtt_us=20_000, start_s=25, stop_s=35)
CALL = Cell(name="call", hops=(HOP,), seconds=37, call=Call(rtt_us=20_000), flows=(PRAGUE, CUBIC))

#: One packet of 1250 bytes a second: with 10 ms in the queue alone, 20 ms and every second one lost with Prague.
CROSSED = pl.DataFrame(
    [
        (t + 0.5, 0, 1250, 10_000.0 if t < 10 else None if t % 2 else 20_000.0, int(10 < t < 20 and not t % 2))
        for t in range(35)
    ]
    + [(t + 0.6, 1, 9999, 1.0, 0) for t in range(35)],
    schema=dict(CROSSINGS), orient="row",
)  # fmt: skip
#: Two frames a second: at once alone, later with a flow; with CUBIC only one comes.
SHOWN = pl.DataFrame(
    [(t / 2, 0, 30_000.0 if t < 20 else 500_000.0 if t % 2 else 400_000.0 if t < 50 else None) for t in range(70)],
    schema=dict(PICTURES), orient="row",
)  # fmt: skip


def flows(*rates: tuple[int, float, int]) -> pl.DataFrame:
    """A flow by number, start (s) and bytes per second."""
    rows = [{"t_s": at + t, "flow": n, "received_bytes": bps * t} for n, at, bps in rates for t in range(11)]
    return pl.DataFrame(rows, schema=dict(FLOWS))


def test_a_phase_has_what_the_call_gets_after_it_has_settled() -> None:
    alone, prague, cubic = media_phases(CALL, flows((0, 10, 125_000), (1, 25, 250_000)), CROSSED, SHOWN)
    assert (alone.contender, alone.window_s, alone.mbps, alone.loss) == (None, (5, 10), 0.01, 0)
    assert (alone.queue_p50_ms, alone.queue_p99_ms, alone.ce_share, alone.contender_mbps) == (10, 10, 0, None)
    assert (alone.frames, alone.frames_in_time, alone.frame_p50_ms) == (10, 1, 30)
    assert (prague.contender, prague.window_s, prague.contender_mbps) == ("prague", (15, 20), 1)
    # Of the packets at 15.5 to 19.5 s, two come, marked: 2500 bytes in 5 s; half of the frames come in time.
    assert (prague.mbps, prague.loss, prague.queue_p50_ms, prague.ce_share) == (0.004, 0.6, inf, 1)
    assert (prague.frames_in_time, prague.frame_p50_ms) == (0.5, 400)
    assert (cubic.contender, cubic.contender_mbps, cubic.frames_in_time, cubic.frame_p50_ms) == ("cubic", 2, 0, 500)


def test_the_video_of_a_program_is_the_first_flow_and_has_no_frames() -> None:
    program = Flow(contender="scream2-call", rtt_us=20_000)
    cell = Cell(name="program", hops=(HOP,), seconds=37, flows=(program, PRAGUE, CUBIC), per_packet=True)
    rows = [(t + 0.5, 0, 1278, 10_000.0 + (5000 if t >= 15 else 0)) for t in range(35)] + [(6, 1, 1500, 1.0)]
    packets = pl.DataFrame(rows, schema=dict(PACKETS), orient="row")
    alone, prague, _ = media_phases(cell, flows((1, 10, 125_000), (2, 25, 250_000)), packets, None)
    assert (alone.mbps, alone.queue_p99_ms, alone.frames, alone.ce_share) == (0.01, 0, None, None)
    assert (prague.contender, prague.queue_p99_ms, prague.contender_mbps) == ("prague", 5, 1)


def test_media_that_is_never_alone_has_no_phases() -> None:
    together = CALL.model_copy(update={"flows": (PRAGUE.model_copy(update={"start_s": 0}), CUBIC)})
    assert media_phases(together, flows((0, 0, 1)), CROSSED, SHOWN) == []
    assert media_phases(CALL.model_copy(update={"call": None}), flows((0, 0, 1)), CROSSED, None) == []
    assert media_phases(CALL, flows((0, 0, 1)), None, None) == []


def test_a_phase_ends_before_packets_that_may_still_be_in_flight() -> None:
    short = CALL.model_copy(update={"seconds": 35})
    cubic = media_phases(short, flows((0, 10, 125_000), (1, 25, 250_000)), CROSSED, SHOWN)[-1]
    assert (cubic.window_s, cubic.contender_mbps, cubic.frames) == ((30, 33), 2, 6)


def test_a_phase_that_is_too_short_is_left_out() -> None:
    short = CALL.model_copy(update={"seconds": 32})
    phases = media_phases(short, flows((0, 10, 125_000), (1, 25, 250_000)), CROSSED, SHOWN)
    assert [phase.contender for phase in phases] == [None, "prague"]
