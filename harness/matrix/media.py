# SPDX-License-Identifier: Apache-2.0
"""The phases, queues and rates that the matrices `l4s-media` and `l4s-media-draft` have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.matrix import Chart, Column
from sojourn.scoring.packets.sojourn import UNDER_WAY_S
from sojourn.traffic.spec import Flow, Probe

RTT_US = 20_000
#: s: alone; each contender; between two contenders, in which the media recovers.
ALONE_S, WITH_S, PAUSE_S = 10, 12, 6
CONTENDERS = ("cubic", "prague", "bbr3")
QUEUES = {
    "dualpi2": "dualpi2", "guard": "dualpi2 min_qlen_step 1", "fq_codel": "fq_codel flows 1", "pfifo": "pfifo",
}  # fmt: skip
RATES = (5, 10, 20)


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
        seconds=fields["flows"][-1].stop_s + UNDER_WAY_S,
        probes=(Probe(rtt_us=RTT_US, interval_s=0.02, round_trip=True),),
        **fields,
    )


def columns() -> Iterator[Column]:
    for head, metric in (("media Mbit/s", "mbps"), ("queue P99 ms", "queue_p99_ms"), ("in time", "frames_in_time")):
        yield from (Column(head=f"{who}: {head}", metric=f"media.{n}.{metric}") for n, who in enumerate(PHASES))


def charts(senders: Iterable[str]) -> Iterator[Chart]:
    for mbps, queue in product(RATES, QUEUES):
        yield Chart(
            title=f"{mbps} Mbit/s, {QUEUES[queue]}: media",
            unit="Mbit/s",
            series={who: f"media.{n}.mbps" for n, who in enumerate(PHASES)},
            cells={sender: name(sender, queue, mbps) for sender in senders},
        )


PHASES = ("alone", *CONTENDERS)
NOTES = (
    "The contenders come one after another, with a pause in which the media recovers. The first 5 s of each phase are "
    "not scored. The flows have no common window: D_SS of each is over its own."
)
