# SPDX-License-Identifier: Apache-2.0
"""S5: two flows inside one tunnel through fq_codel, which sees its outer headers ("L4S Tests", Scenario 5).

WireGuard is one UDP flow whatever is inside. IP in FOU is one too with a fixed source port; with one that the kernel
draws from the inner flow's hash (`encap-sport auto`) it is several. Which of the two the source used is not said:
both are run.

Needs the nodes' separate kernels: in namespaces of one kernel the inner flow's hash leaks through the tunnel.
"""

from __future__ import annotations

from harness.matrix import dumbbell
from harness.matrix.cases import matrix_tests
from harness.matrix.cell import Cell, Hop
from harness.matrix.matrix import Column, Expectation, Matrix
from scoring import published

ROWS = published.rows("tunnels_matrix.csv")
TUNNELS = {"wireguard": {"wireguard": "wireguard"}, "ipfou": {"ipfou": "fou", "ipfou-auto": "fou-auto"}}


def cell(row: dict[str, str], name: str, kind: str) -> Cell:
    return Cell(
        name=f"{name}-{row['cc1']}-vs-{row['cc2']}-{row['qdisc']}-{row['rate_mbps']}mbit-{row['rtt_ms']}ms",
        flows=dumbbell.flows([row["cc1"], f"{row['cc2']}-noecn"], float(row["rtt_ms"])),
        hops=(Hop(), dumbbell.bottleneck(float(row["rate_mbps"]), row["qdisc"]), Hop()),
        seconds=60,
        tunnel=kind,  # type: ignore[arg-type]
    )


MATRIX = Matrix(
    name="s5",
    title="S5: tunnels",
    source='"L4S Tests", Scenario 5',
    cells=tuple(cell(row, *made) for row in ROWS for made in TUNNELS[row["tunnel"]].items()),
    window_s=40,
    columns=(
        Column(head="Prague Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="beside Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="ratio : 1", metric="ratio", digits=1),
        Column(head="Prague RTT ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="beside RTT ms", metric="flows.1.rtt_mean_ms", digits=1),
        Column(head="flows outside", metric="wire.flows", digits=0),
        Column(head="queues in use", metric="active_queues", digits=1),
        Column(head="ECT(1) outside", metric="wire.ect1"),
        Column(head="CE outside", metric="wire.ce", digits=3),
    ),
    expectations=(
        Expectation(metric="wire.flows", low=1, high=1, cells="^(wireguard|ipfou-prague)"),
        Expectation(metric="wire.flows", low=2, high=2, cells="^ipfou-auto"),
        Expectation(metric="wire.largest_bytes", high=1500),
    ),
    notes="The second flow negotiates no ECN (the source clears its ECN bits). Kernels of their own are needed for "
    "client, router and server. Published are the runs' names only, no figures.",
)
test_cell = matrix_tests(MATRIX)
