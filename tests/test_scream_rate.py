# SPDX-License-Identifier: Apache-2.0
"""What decides the rate of a call by Chromium's SCReAM v2 with a Prague download: queue, path, limit, feedback, alpha.

The cells with a trial change a parameter of Chromium's field trial, and so one part of its SCReAM.
"""

from __future__ import annotations

from typing import Any

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Column, Contrast, Expectation, Matrix
from sojourn.traffic.spec import Call, Probe

SECONDS, WINDOW_S, TAIL_S = 17, 10, 1
QUEUES = {"default": "dualpi2", "guard": "dualpi2 min_qlen_step 1"}


def cell(
    name: str,
    queue: str = "guard",
    contenders: tuple[str, ...] = ("prague",),
    *,
    mbps: float = 5,
    rtt_ms: float = 20,
    limit_mbps: float = 2.5,
    **of_call: Any,
) -> Cell:
    rtt_us = round(rtt_ms * 1000)
    return Cell(
        name=name,
        flows=dumbbell.flows(contenders, rtt_ms),
        hops=(dumbbell.bottleneck(mbps, QUEUES[queue]),),
        seconds=SECONDS,
        call=Call(rtt_us=rtt_us, bitrate_bps=dumbbell.bps(limit_mbps), **({"cc": "scream"} | of_call)),
        probes=(Probe(rtt_us=rtt_us, ecn="ect1"),),
    )


#: Without the time that the receiver holds feedback back; with an alpha that rises as slowly as it falls; both; and
#: with the latter, without the factors of delay and of the last window at which congestion began.
TRIALS = {
    "no-hold": "FeedbackHoldTimeAvgG:0",
    "even-alpha": "L4sAvgGUp:0.0625,L4sAvgGDown:0.0625",
    "no-hold-even-alpha": "FeedbackHoldTimeAvgG:0,L4sAvgGUp:0.0625,L4sAvgGDown:0.0625",
    "even-alpha-no-factors": "L4sAvgGUp:0.0625,L4sAvgGDown:0.0625,LatencyDiffThreshold:1s,QDelayMinThreshold:1s,"
    "BackoffScaleFactorCloseToRefWindowI:100",
}


def more(title: str, name: str, low: float) -> Contrast:
    return Contrast(title=title, metric="call.0.window_mbps", cell=name, reference="guard-5mbit", low=low)


MATRIX = Matrix(
    name="scream-rate",
    title="The rate of a call by Chromium's SCReAM with Prague",
    source="ours; docs/calls.md explains it",
    cells=(
        *(cell(f"{queue}-{mbps}mbit", queue, mbps=mbps) for mbps in (5, 10, 20, 50) for queue in QUEUES),
        *(cell(f"rtt-{rtt}ms", rtt_ms=rtt) for rtt in (10, 40, 80)),
        cell("alone", contenders=()),
        cell("cubic", contenders=("cubic",)),
        cell("gcc", cc="gcc"),
        cell("limit-10mbit", mbps=20, limit_mbps=10),
        *(cell(name, trial=trial) for name, trial in TRIALS.items()),
    ),
    repeat=2,
    window_s=WINDOW_S,
    tail_s=TAIL_S,
    columns=(
        Column(head="call Mbit/s", metric="call.0.window_mbps"),
        Column(head="allowed, least", metric="call.0.available_min_mbps"),
        Column(head="allowed, largest", metric="call.0.available_max_mbps"),
        Column(head="marked", metric="call.0.ce_share", digits=3),
        Column(head="bytes", metric="call.0.packet_bytes", digits=0),
        Column(head="contender Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="L P50 ms", metric="probes.0.p50_ms"),
        Column(head="L P99 ms", metric="probes.0.p99_ms"),
    ),
    expectations=(Expectation(cells="^alone$", metric="call.0.window_mbps", low=2.3),),
    contrasts=(
        more("No time for feedback: the call's rate over that with it", "no-hold", 1.3),
        more("Alpha rises as it falls: the call's rate over that with a fast attack", "even-alpha", 1.2),
        more("Both", "no-hold-even-alpha", 1.6),
    ),
)
test_cell = matrix_tests(MATRIX)
