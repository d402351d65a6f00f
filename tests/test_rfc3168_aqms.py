# SPDX-License-Identifier: Apache-2.0
"""S6: Prague with CUBIC or Reno in one RFC 3168 queue, 50 Mbit/s, 20 ms ("L4S Tests", Scenario 6)."""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Expectation, Matrix, Reference
from sojourn.harness.report.contender_names import display_name
from sojourn.scoring.reference import published

QDISCS = {
    "fq_codel(1q)": "fq_codel flows 1",
    "fq_codel(1q,1ms/20ms)": "fq_codel flows 1 target 1ms interval 20ms",
    "pie": "pie ecn",
    "pie(100p/5ms)": "pie limit 100 target 5ms tupdate 32ms alpha 2 beta 20 ecn",
    "red(150000b)": "red limit 150000 avpkt 1000 adaptive bandwidth 50mbit ecn",
    "red(400000b)": "red limit 400000 avpkt 1000 adaptive bandwidth 50mbit ecn",
}
ROWS = published.rows("fairness_rfc3168.csv")


def name(row: dict[str, str]) -> str:
    return f"{row['cc1']}-vs-{row['cc2']}-{row['cc2_ecn']}-{row['qdisc']}-50mbit-20ms"


def cell(row: dict[str, str]) -> Cell:
    hop = dumbbell.bottleneck(float(row["rate_mbps"]), QDISCS[row["qdisc"]])
    if row["cc2_ecn"] == "noecn":
        hop = dumbbell.bleached(hop, 1)
    contenders = [dumbbell.PUBLISHED[row[name]] for name in ("cc1", "cc2")]
    return Cell(
        name=name(row),
        flows=dumbbell.flows(contenders, float(row["rtt1_ms"]), start_s=dumbbell.FLENT_DELAY_S),
        hops=(hop,),
        seconds=60 + dumbbell.FLENT_DELAY_S,
        tso_2020=True,
    )


def chart(other: str, ecn: str) -> Chart:
    rows = [row for row in ROWS if (row["cc2"], row["cc2_ecn"]) == (other, ecn)]
    return Chart(
        title=f"Prague with {display_name(other)}, {'ECN' if ecn == 'ecn' else 'no ECN'}: D_SS",
        unit="Mbit/s",
        series={"prague": "flows.0.d_ss_mbps", other: "flows.1.d_ss_mbps"},
        cells={row["qdisc"]: name(row) for row in rows},
    )


MATRIX = Matrix(
    name="s6",
    title="S6: Prague in RFC 3168 queues",
    source='"L4S Tests", Scenario 6 Fairness Table',
    cells=tuple(cell(row) for row in ROWS),
    window_s=40,
    tail_s=1,
    columns=(
        Column(head="Prague Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="other flow Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="ratio : 1", metric="ratio", digits=1),
        Column(head="Prague RTT ms", metric="flows.0.rtt_mean_ms"),
        Column(head="Prague CE share", metric="flows.0.ce_share", digits=4),
    ),
    expectations=(Expectation(metric="ratio", low=8, high=80),),
    reference=Reference(
        csv="fairness_rfc3168.csv",
        published={
            name(row): {
                "flows.0.d_ss_mbps": float(row["dss1_mbps"]),
                "flows.1.d_ss_mbps": float(row["dss2_mbps"]),
                "ratio": float(row["ratio_1_to_2"]),
            }
            for row in ROWS
        },
        tolerance={"flows.0.d_ss_mbps": 0.03},
    ),
    charts=tuple(chart(other, ecn) for other in ("cubic", "reno") for ecn in ("ecn", "noecn")),
    notes="Prague is prague-2020, CUBIC and Reno negotiate AccECN, as in the source (dumbbell.PUBLISHED); "
    "--swap prague-2020=prague runs the draft's. noecn: the middlebox clears the ECN field of the second flow. "
    "D_SS is the mean of the sender's delivery rates, 40 s that end 1 s before the end. "
    "No cell is required to have Prague's D_SS within 3 %, and the matrix no correlation or bias: what Prague leaves "
    "is 1.2 times the published rate of CUBIC and 2.0 times that of Reno, so the ratio is too low. "
    "Packets of several segments are built as in 2020 (tso_2020). "
    "hardware/kernel/README.md lists what was ruled out.",
)
test_cell = matrix_tests(MATRIX)
