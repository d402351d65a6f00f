# SPDX-License-Identifier: Apache-2.0
"""S5: two flows inside one tunnel through fq_codel, which sees a single flow ("L4S Tests", Scenario 5).

Needs the nodes' separate kernels: in namespaces of one kernel the inner flow's hash leaks through the tunnel.
"""

from __future__ import annotations

from harness import dumbbell
from harness.cell import Cell, Hop
from harness.matrix import Column, Matrix, matrix_tests
from scoring import published

ROWS = published.rows("tunnels_matrix.csv")
TUNNELS = {"wireguard": "wireguard", "ipfou": "fou"}


def cell(row: dict[str, str]) -> Cell:
    return Cell(
        name=f"{row['tunnel']}-{row['cc1']}-vs-{row['cc2']}-{row['qdisc']}-{row['rate_mbps']}mbit-{row['rtt_ms']}ms",
        flows=dumbbell.flows([row["cc1"], f"{row['cc2']}-noecn"], float(row["rtt_ms"])),
        hops=(Hop(), dumbbell.bottleneck(float(row["rate_mbps"]), row["qdisc"]), Hop()),
        seconds=60,
        tunnel=TUNNELS[row["tunnel"]],
    )


MATRIX = Matrix(
    name="s5",
    title="S5: tunnels",
    source='"L4S Tests", Scenario 5',
    cells=tuple(cell(row) for row in ROWS),
    window_s=40,
    columns=(
        Column(head="Prague Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="beside Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="ratio : 1", metric="ratio", digits=1),
    ),
    notes="The second flow negotiates no ECN (the source clears its ECN bits). Kernels of their own are needed for "
    "client, router and server.",
)
test_cell = matrix_tests(MATRIX)
