# SPDX-License-Identifier: Apache-2.0
"""One flow through cake at 0.5 to 100 Mbit/s and 0 to 160 ms ("Some Congestion Experienced One and Two-Flow Tests")."""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Column, Difference, Matrix, Reference
from sojourn.scoring.reference import published

CCS = ("reno", "cubic", "dctcp", "prague")
SCE = {"reno-sce": "reno", "dctcp-sce": "dctcp"}
"""Those that answer SCE, and what each is compared with."""
RATES = (0.5, 1, 2, 5, 10, 25, 50, 100)
DELAYS = (0, 2, 5, 10, 20, 40, 80, 160)
GOODPUT, RTT = "flows.0.goodput_mbps", "flows.0.rtt_mean_ms"
MORE, MORE_RTT = "more_goodput", "more_rtt_ms"
# The longer lengths in the public harness: the whole flow counts, with the time to fill a long path.
LENGTHS = {(25, 160): 90, (50, 160): 180, (100, 80): 120, (100, 160): 300}


def seconds(rate: float, delay: int) -> float:
    return LENGTHS.get((int(rate), delay), 60 if delay >= 80 or rate * delay >= 2000 else 30)


def name(cc: str, rate: float, delay: int) -> str:
    return f"{cc}-cake-{rate:g}mbit-{delay}ms"


def cell(cc: str, rate: float, delay: int) -> Cell:
    # Cake shapes; the class around it has the rate of the source's links.
    # The source marks SCE always, which is nothing to CUBIC, Reno and Prague.
    marking = " sce" if cc in SCE or cc == "dctcp" else ""
    cake = f"cake bandwidth {dumbbell.bps(rate)}bit flowblind{marking}"
    return Cell(
        name=name(cc, rate, delay),
        flows=dumbbell.flows([cc], delay),
        hops=(dumbbell.bottleneck(dumbbell.LINK_MBPS, cake), *dumbbell.before_sce_receiver([cc])),
        seconds=seconds(rate, delay),
        tso_2020=True,
    )


def figures() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for file, column, metric in (
        ("sce_one_flow_throughput.csv", "mean_tcp_throughput_mbps", GOODPUT),
        ("sce_one_flow_rtt.csv", "mean_tcp_rtt_ms", RTT),
    ):
        for row in published.rows(file):
            key = name(row["cc"], float(row["cake_bandwidth_mbps"]), int(row["netem_delay_ms"]))
            found.setdefault(key, {})[metric] = float(row[column])
    for row in published.rows("sce_one_flow_diff.csv"):
        key = name(row["cc_sce"], float(row["cake_bandwidth_mbps"]), int(row["netem_delay_ms"]))
        found[key] |= {MORE: float(row["throughput_diff_fraction"]), MORE_RTT: float(row["rtt_diff_ms"])}
    return found


def differences(sce: str, rate: float, delay: int) -> tuple[Difference, ...]:
    more, less = name(sce, rate, delay), name(SCE[sce], rate, delay)
    return (
        Difference(cell=more, metric=MORE, of=GOODPUT, more=more, less=less, per=rate),
        Difference(cell=more, metric=MORE_RTT, of=RTT, more=more, less=less),
    )


MATRIX = Matrix(
    name="one-flow",
    title="One flow through cake",
    source='"Some Congestion Experienced One and Two-Flow Tests", 5.1, A.1 and A.2',
    cells=tuple(cell(*point) for point in product((*CCS, *SCE), RATES, DELAYS)),
    repeat=1,
    window_s=28,
    columns=(
        Column(head="mean Mbit/s", metric=GOODPUT),
        Column(head="TCP RTT ms", metric=RTT),
        Column(head="retransmitted", metric="flows.0.retrans", digits=0),
        Column(head="CE share", metric="flows.0.ce_share", digits=4),
        Column(head="SCE adds, share of rate", metric=MORE, digits=3),
        Column(head="SCE adds to RTT ms", metric=MORE_RTT),
    ),
    reference=Reference(
        csv="sce_one_flow_throughput.csv, sce_one_flow_rtt.csv, sce_one_flow_diff.csv",
        published=figures(),
        tolerance={GOODPUT: 0.1, RTT: 0.25},
        absolute={MORE: 0.05, MORE_RTT: 2},
    ),
    differences=tuple(one for point in product(SCE, RATES, DELAYS) for one in differences(*point)),
    notes="Mean of the whole flow, slow start included. The delay is what netem adds there and back. DCTCP's receiver "
    "hears of no packet that is marked SCE, as the source's: a middlebox clears ECT(1) of its flow. Packets of several "
    "segments are made as in 2020 (tso_2020).",
)
test_cell = matrix_tests(MATRIX)
