# SPDX-License-Identifier: Apache-2.0
"""S1: two flows of equal and unequal RTT in one queue ("L4S Tests", Scenario 1)."""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_targets, matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Correlation, Matrix, Reference
from sojourn.scoring.reference import published

QDISCS = {
    "dualpi2": dumbbell.DUALPI2_2020,
    "fq_codel": "fq_codel",
    "pfifo(200)": "pfifo limit 200",
    "pfifo(1000)": "pfifo limit 1000",
}
PAIRS = (("prague", "prague"), ("cubic", "prague"), ("prague", "cubic"), ("cubic", "cubic"))
ROWS = published.rows("fairness_rtt.csv")


def name(row: dict[str, str]) -> str:
    where = f"{row['qdisc']}-{row['rate_mbps']}mbit-{row['rtt1_ms']}ms-{row['rtt2_ms']}ms"
    return f"{row['cc1']}-vs-{row['cc2']}-{where}"


def middlebox(row: dict[str, str]) -> Hop:
    rate = float(row["rate_mbps"])
    if row["qdisc"] == "cnq_codel_af":  # which shapes
        return dumbbell.bottleneck(dumbbell.LINK_MBPS, f"cnq_codel_af bandwidth {dumbbell.bps(rate)}bit")
    return dumbbell.bottleneck(rate, QDISCS[row["qdisc"]])


def cell(row: dict[str, str]) -> Cell:
    return Cell(
        name=name(row),
        flows=dumbbell.flows(
            [dumbbell.PUBLISHED.get(cc, cc) for cc in (row["cc1"], row["cc2"])],
            [float(row["rtt1_ms"]), float(row["rtt2_ms"])],
        ),
        hops=(middlebox(row),),
        seconds=180,
        tso_2020=True,
    )


def chart(rate: str, rtts: tuple[str, str]) -> Chart:
    rows = [row for row in ROWS if row["rate_mbps"] == rate and (row["rtt1_ms"], row["rtt2_ms"]) == rtts]
    return Chart(
        title=f"{rate} Mbit/s, {rtts[0]} and {rtts[1]} ms: D_SS",
        unit="Mbit/s",
        series={"flow 1": "flows.0.d_ss_mbps", "flow 2": "flows.1.d_ss_mbps"},
        cells={f"{row['qdisc']} {row['cc1']}:{row['cc2']}": name(row) for row in sorted(rows, key=_order)},
    )


def _order(row: dict[str, str]) -> tuple[str, int]:
    return row["qdisc"], PAIRS.index((row["cc1"], row["cc2"]))


MATRIX = Matrix(
    name="s1",
    title="S1: RTT fairness",
    source='"L4S Tests", Scenario 1 Fairness Table',
    cells=tuple(cell(row) for row in ROWS),
    repeat=1,
    window_s=60,
    tail_s=1,
    columns=(
        Column(head="flow 1 Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="flow 2 Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="Jain's index", metric="jain", digits=3),
        Column(head="RTT 1 ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="RTT 2 ms", metric="flows.1.rtt_mean_ms", digits=1),
    ),
    reference=Reference(
        csv="fairness_rtt.csv",
        published={
            name(row): {
                "flows.0.d_ss_mbps": float(row["dss1_mbps"]),
                "flows.1.d_ss_mbps": float(row["dss2_mbps"]),
                "jain": float(row["jains_index"]),
            }
            for row in ROWS
        },
        tolerance={"flows.0.d_ss_mbps": 0.15, "jain": 0.1},
        correlations=(
            Correlation(metric="jain", kind="spearman", least=0.9),
            *(Correlation(metric=f"flows.{n}.d_ss_mbps", kind="pearson", least=0.99) for n in (0, 1)),
        ),
    ),
    charts=tuple(chart(rate, rtts) for rtts in (("20", "20"), ("80", "80"), ("160", "10")) for rate in ("50", "10")),
    notes="Prague is prague-2020 and CUBIC negotiates AccECN, as in the source (dumbbell.PUBLISHED); "
    "--swap prague-2020=prague runs the draft's. dualpi2's step marks from two packets on, as in 2020. "
    "D_SS is the mean of the sender's delivery rates, 60 s that end 1 s before the end. Asked of both flows' D_SS is a "
    "Pearson's correlation of 0.99, of Jain's index a rank correlation of 0.9; 0.95 is the aim, which one seed meets "
    "or misses by chance: alike flows share by it. "
    "Packets of several segments are made as in 2020 (tso_2020). "
    "Furthest off is Prague with CUBIC in a pfifo; see hardware/kernel/README.md.",
)
test_cell = matrix_tests(MATRIX)
test_targets = matrix_targets(MATRIX)
