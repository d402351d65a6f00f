# SPDX-License-Identifier: Apache-2.0
"""BBR of the kernel (version 1), of quinn (1), of quiche (2) and of noq (3), alone and against a TCP flow.

The buffers of pfifo are 1 and 8 bandwidth-delay products. Prague needs ECN, which pfifo does not have.
"""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Column, Expectation, Matrix
from sojourn.traffic.program import PROGRAMS

SENDERS = ("bbr", "quic-bbr", "quic-bbr2", "quic-bbr3")
RIVALS: dict[str, tuple[str, ...]] = {"alone": (), "vs-cubic": ("cubic-noecn",), "vs-prague": ("prague",)}
RATES = (10, 50)
RTT = 20
BUFFERS = {"pfifo-1bdp": 1, "pfifo-8bdp": 8}
QUEUES = (*BUFFERS, "fq_codel", "dualpi2")
PACKET_BITS = 1514 * 8


def qdisc(queue: str, mbps: int) -> str:
    """Return tc's text; a buffer of pfifo in packets of 1514 bytes."""
    return f"pfifo limit {round(BUFFERS[queue] * mbps * RTT * 1000 / PACKET_BITS)}" if queue in BUFFERS else queue


def cell(sender: str, rival: str, mbps: int, queue: str) -> Cell:
    program = PROGRAMS.get(sender)
    return Cell(
        name=f"{sender}-{rival}-{mbps}mbit-{queue}",
        flows=dumbbell.flows((sender, *RIVALS[rival]), RTT),
        hops=(dumbbell.bottleneck(mbps, qdisc(queue, mbps)),),
        seconds=40,
        per_packet=True,
        needs=program.missing_tools() if program else "",
    )


MATRIX = Matrix(
    name="quic-bbr",
    title="BBR of the kernel, of quinn, of quiche and of noq, alone and against CUBIC and Prague",
    source="ours; draft-ietf-ccwg-bbr-06 for the loss that BBRv3 allows",
    cells=tuple(cell(*point) for point in product(SENDERS, RIVALS, RATES, QUEUES)),
    repeat=1,
    window_s=30,
    columns=(
        Column(head="BBR Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="TCP Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="BBR lost", metric="packets.flows.0.loss", digits=4),
        Column(head="BBR P95 ms", metric="packets.flows.0.p95_owd_ms", digits=1),
    ),
    expectations=(
        # LossThresh: 2 % of a round. Slow start loses more: the worst cell 3.1 % in 3 s, 1.9 % later, 2.05 % in all.
        Expectation(metric="packets.flows.0.loss", high=0.025, cells=r"^quic-bbr[23]-.*-pfifo"),
        Expectation(metric="flows.0.d_ss_mbps", low=8, high=10, cells=r"^(bbr|quic-bbr[23])-alone-10mbit"),
        Expectation(metric="flows.0.d_ss_mbps", low=40, high=50, cells=r"^(bbr|quic-bbr[23])-alone-50mbit"),
    ),
    notes="`quic-bbr` is quinn's BBR, whose estimate of the bandwidth never falls (docs/matrix.md); the loss of all "
    "flows is of the whole cell, with what is on its way at the end.",
)
test_cell = matrix_tests(MATRIX)
