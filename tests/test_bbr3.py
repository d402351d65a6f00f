# SPDX-License-Identifier: Apache-2.0
"""BBRv3 in the cells of Google's own tests: coexistence, random loss, shallow buffers, bufferbloat.

Coexistence has the BBRs of two QUIC programs too, by other authors: `quic-bbr3`, by the same draft, and `quic-bbr2`.
bbr3 is not in the default kernel: `sojourn matrix bbr3 --kernel-source=hardware/kernel/bbr3`.
"""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.spec import Direction, Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Contrast, Expectation, Matrix
from sojourn.harness.report.contender_names import display_name
from sojourn.traffic.program import PROGRAMS
from sojourn.traffic.spec import Probe

BBRS = ("bbr3", "bbr")
CCS = (*BBRS, "cubic-noecn")
OVER_QUIC = ("quic-bbr3", "quic-bbr2")
FRAME_BITS = 1500 * 8
#: Coexistence and bufferbloat: Mbit/s, ms, and buffers in bandwidth-delay products.
HOME, HOME_RTT = 50, 30
COEXISTENCE, BLOAT = (0.1, 1, 2, 4, 8, 16), (1, 10, 100)
#: Random loss and shallow buffers have 1 Gbit/s at the source, which takes ten times as long.
LONG, LONG_RTT = 100, 100
LOSSES = (0.001, 0.01, 0.1, 1, 2, 5, 10, 20)
FLOWS = (1, 10, 30)


def buffer(mbps: float, rtt_ms: float, bdps: float) -> str:
    return f"pfifo limit {round(mbps * 1e3 * rtt_ms * bdps / FRAME_BITS)}"


def cell(name: str, ccs: tuple[str, ...], hop: Hop, rtt_ms: float, seconds: float) -> Cell:
    probes = (Probe(rtt_us=round(rtt_ms * 1000), round_trip=True),)
    program = PROGRAMS.get(ccs[0])
    return Cell(
        name=name, flows=dumbbell.flows(ccs, rtt_ms), hops=(hop,), probes=probes, seconds=seconds,
        per_packet=program is not None, needs=program.missing_tools() if program else "",
    )  # fmt: skip


def alone(cc: str) -> Cell:
    hop = dumbbell.bottleneck(HOME, buffer(HOME, HOME_RTT, 8))
    return cell(f"alone-{cc}", (cc,), hop, HOME_RTT, 60)


def coexistence(cc: str, bdps: float) -> Cell:
    hop = dumbbell.bottleneck(HOME, buffer(HOME, HOME_RTT, bdps))
    return cell(f"coexistence-{cc}-vs-cubic-{bdps:g}bdp", (cc, "cubic-noecn"), hop, HOME_RTT, 180)


def random_loss(cc: str, percent: float) -> Cell:
    queue = {"rate_bps": dumbbell.bps(LONG), "qdisc": buffer(LONG, LONG_RTT, 1)}
    down = Direction.model_validate({**queue, "path": Impairment(loss_percent=percent)})
    return cell(f"loss-{cc}-{percent:g}%", (cc,), Hop.model_validate({"down": down, "up": queue}), LONG_RTT, 60)


def shallow(cc: str, flows: int) -> Cell:
    hop = dumbbell.bottleneck(LONG, buffer(LONG, LONG_RTT, 0.02))
    return cell(f"shallow-{cc}-{flows}", (cc,) * flows, hop, LONG_RTT, 60)


def bloat(cc: str, bdps: float) -> Cell:
    hop = dumbbell.bottleneck(HOME, buffer(HOME, HOME_RTT, bdps))
    return cell(f"bloat-{cc}-{bdps:g}bdp", (cc, cc), hop, HOME_RTT, 120)


def objective(rtt_ms: float) -> float:
    """Return the round trip in ms with a queue of 1.5 BDP, the most that a BBR flow aims at (draft, 3.2)."""
    return rtt_ms * 2.5


MATRIX = Matrix(
    name="bbr3",
    title="BBRv3 and BBR with CUBIC, random loss, shallow and deep buffers",
    source="parameters of Google's BBRv3 test script; IETF 117 and 119 (CCWG) show its results as charts",
    cells=(
        *(alone(cc) for cc in (*BBRS, *OVER_QUIC)),
        *(coexistence(*point) for point in product((*BBRS, *OVER_QUIC), COEXISTENCE)),
        *(random_loss(*point) for point in product(CCS, LOSSES)),
        *(shallow(*point) for point in product(CCS, FLOWS)),
        *(bloat(*point) for point in product(CCS, BLOAT)),
    ),
    repeat=1,
    columns=(
        Column(head="flow 1 Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="flow 2 Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="utilisation", metric="utilisation", digits=3),
        Column(head="flow 1 retransmitted share", metric="flows.0.retrans_share", digits=4),
        Column(head="round trip P50 ms", metric="probes.0.p50_ms", digits=1),
        Column(head="round trip P99 ms", metric="probes.0.p99_ms", digits=1),
    ),
    charts=(
        *(
            Chart(
                title=f"1 {display_name(cc)} : 1 CUBIC, {HOME} Mbit/s, {HOME_RTT} ms",
                unit="Mbit/s",
                series={cc: "flows.0.d_ss_mbps", "cubic": "flows.1.d_ss_mbps"},
                cells={f"{bdps:g} BDP": coexistence(cc, bdps).name for bdps in COEXISTENCE},
            )
            for cc in (*BBRS, *OVER_QUIC)
        ),
        *(
            Chart(
                title=f"Random loss, {display_name(cc)}, {LONG} Mbit/s, {LONG_RTT} ms",
                unit="Mbit/s",
                series={cc: "flows.0.d_ss_mbps"},
                cells={f"{percent:g} %": random_loss(cc, percent).name for percent in LOSSES},
            )
            for cc in CCS
        ),
    ),
    contrasts=(
        Contrast(
            title="CUBIC's rate against bbr3 over that against bbr, 1 BDP",
            metric="flows.1.d_ss_mbps",
            cell=coexistence("bbr3", 1).name,
            reference=coexistence("bbr", 1).name,
            low=1,
        ),
        Contrast(
            title="Rate of bbr3 over CUBIC's at 1 % random loss",
            metric="flows.0.d_ss_mbps",
            cell=random_loss("bbr3", 1).name,
            reference=random_loss("cubic-noecn", 1).name,
            low=5,
        ),
        Contrast(
            title="Retransmitted share of bbr3 over bbr's in a shallow buffer",
            metric="flows.0.retrans_share",
            cell=shallow("bbr3", 1).name,
            reference=shallow("bbr", 1).name,
            high=1,
        ),
    ),
    expectations=tuple(
        Expectation(cells=f"^{bloat('bbr3', bdps).name}$", metric="probes.0.p50_ms", high=objective(HOME_RTT))
        for bdps in BLOAT
    ),
    notes="Random loss and shallow buffers at 100 Mbit/s instead of 1 Gbit/s. No TCP flow negotiates ECN, and no queue "
    "marks. The expectation on bufferbloat is the draft's objective for queues (3.2): 1.5 BDP.",
)
test_cell = matrix_tests(MATRIX)
