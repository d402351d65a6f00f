# SPDX-License-Identifier: Apache-2.0
"""Three senders of a call alone, then with CUBIC, Prague and BBRv3 in turn, in four queues at three rates.

bbr3 is not in the default kernel: `sojourn matrix l4s-media --kernel-source=hardware/kernel/bbr3`. The same for a video
by SCReAM's draft is the matrix `l4s-media-draft`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Expectation, Matrix
from sojourn.traffic.spec import Call, Flow, Probe

RTT_US = 20_000
#: s: alone; each contender; between two contenders, in which the media recovers.
ALONE_S, WITH_S, PAUSE_S = 10, 12, 6
CONTENDERS = ("cubic", "prague", "bbr3")
QUEUES = {
    "dualpi2": "dualpi2", "guard": "dualpi2 min_qlen_step 1", "fq_codel": "fq_codel flows 1", "pfifo": "pfifo",
}  # fmt: skip
RATES = (5, 10, 20)
#: A call of 720p has at most 2.5 Mbit/s.
CALLS: dict[str, dict[str, Any]] = {"gcc": {}, "gcc-ect1": {"ecn": "ect1"}, "scream": {"cc": "scream"}}


def name(sender: str, queue: str, mbps: int) -> str:
    return f"{sender}-{queue}-{mbps}mbit"


def contenders() -> tuple[Flow, ...]:
    """One after another, from the end of the phase alone on."""
    begins = (ALONE_S + n * (WITH_S + PAUSE_S) for n in range(len(CONTENDERS)))
    return tuple(
        Flow(contender=who, rtt_us=RTT_US, start_s=at, stop_s=at + WITH_S)
        for who, at in zip(CONTENDERS, begins, strict=True)
    )


def cell(sender: str, queue: str, mbps: int, **media: Any) -> Cell:
    fields = {"flows": contenders()} | media
    return Cell(
        name=name(sender, queue, mbps),
        hops=(dumbbell.bottleneck(mbps, QUEUES[queue]),),
        seconds=fields["flows"][-1].stop_s,
        probes=(Probe(rtt_us=RTT_US, interval_s=0.02, round_trip=True),),
        **fields,
    )


def call(sender: str) -> Call:
    return Call(rtt_us=RTT_US, bitrate_bps=dumbbell.bps(2.5), **CALLS[sender])


def columns() -> Iterator[Column]:
    for head, metric in (("media Mbit/s", "mbps"), ("queue P99 ms", "queue_p99_ms"), ("in time", "frames_in_time")):
        yield from (Column(head=f"{who}: {head}", metric=f"media.{n}.{metric}") for n, who in enumerate(PHASES))


def charts(senders: Iterable[str]) -> Iterator[Chart]:
    for mbps, queue in product(RATES, QUEUES):
        yield Chart(
            title=f"{mbps} Mbit/s, {queue}: media",
            unit="Mbit/s",
            series={who: f"media.{n}.mbps" for n, who in enumerate(PHASES)},
            cells={sender: name(sender, queue, mbps) for sender in senders},
        )


PHASES = ("alone", *CONTENDERS)
NOTES = (
    "The contenders come one after another, with a pause in which the media recovers. The first 5 s of each phase are "
    "not scored. The flows have no common window, so its figures mean nothing here."
)
MATRIX = Matrix(
    name="l4s-media",
    title="Calls by GCC and SCReAM with CUBIC, Prague and BBRv3",
    source="ours; docs/l4s-media.md",
    cells=tuple(cell(*point, call=call(point[0])) for point in product(CALLS, QUEUES, RATES)),
    repeat=1,
    window_s=WITH_S - 5,
    tail_s=0,
    columns=tuple(columns()),
    expectations=(Expectation(metric="media.0.mbps", low=1.5),),
    charts=tuple(charts(CALLS)),
    notes=NOTES,
)
test_cell = matrix_tests(MATRIX)
