# SPDX-License-Identifier: Apache-2.0
"""libwebrtc's own bounds of its SCReAM v2: the rate that the sender allows, in Chromium through a real queue."""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.spec import Direction, Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Column, Expectation, Matrix
from sojourn.scoring.reference import published
from sojourn.traffic.spec import Call

ROWS = published.rows("scream_bounds.csv")
WINDOW_S, TAIL_S, SETTLED_S = 8, 1, 4
#: Of libwebrtc's simulated queues: DualPI2 without a step, a queue without a limit, one of 3 packets.
QUEUES = {"dualpi2": "dualpi2 target 10ms step_thresh 1s", "fifo": "pfifo", "fifo-3": "pfifo limit 3"}


def cell(row: dict[str, str]) -> Cell:
    rate, rtt_us = float(row["rate_mbps"]), round(float(row["rtt_ms"]) * 1000)
    later = float(row["then_mbps"] or 0)
    # The size of the picture is libwebrtc's, the video's limit above the bounds; the call also begins at this rate.
    limit = 1.1 if rate <= 1 and not later else 2.5
    down = Direction(
        rate_bps=dumbbell.bps(rate),
        qdisc=QUEUES[row["queue"]],  # type: ignore[arg-type]
        path=Impairment(loss_percent=float(row["loss_percent"])),
    )
    up = Direction(rate_bps=dumbbell.bps(dumbbell.LINK_MBPS), qdisc="pfifo")  # type: ignore[arg-type]
    steps = dumbbell.bottleneck(rate, "pfifo", steps=[(5, later)]).schedule if later else ()
    return Cell(
        name=row["test"],
        hops=(Hop(down=down, up=up, schedule=steps),),
        seconds=WINDOW_S + TAIL_S + (9 if later else SETTLED_S),
        call=Call(rtt_us=rtt_us, cc="scream", bitrate_bps=dumbbell.bps(limit)),
    )


def bounds(row: dict[str, str]) -> tuple[Expectation, Expectation]:
    name = f"^{row['test']}$"
    return (
        Expectation(cells=name, metric="call.0.available_min_mbps", low=float(row["low_mbps"])),
        Expectation(cells=name, metric="call.0.available_max_mbps", high=float(row["high_mbps"])),
    )


MATRIX = Matrix(
    name="scream-bounds",
    title="The rate that Chromium's SCReAM allows, within libwebrtc's own bounds",
    source="libwebrtc, test/peer_scenario/bwe_integration_tests",
    cells=tuple(map(cell, ROWS)),
    repeat=2,
    window_s=WINDOW_S,
    tail_s=TAIL_S,
    columns=(
        Column(head="allowed, least Mbit/s", metric="call.0.available_min_mbps"),
        Column(head="allowed, largest Mbit/s", metric="call.0.available_max_mbps"),
        Column(head="call Mbit/s", metric="call.0.window_mbps"),
        Column(head="marked", metric="call.0.ce_share", digits=3),
    ),
    expectations=tuple(one for row in ROWS for one in bounds(row)),
    notes="libwebrtc's tests send in one direction, with sound, from the start of a call. Here both ends send video, "
    "without a bottleneck for the way up, and the call runs when the cell begins. The bounds hold for every second of "
    "the window.",
)
test_cell = matrix_tests(MATRIX)
