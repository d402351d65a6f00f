# SPDX-License-Identifier: Apache-2.0
"""S9: CUBIC and Prague in one IPsec tunnel through dualpi2: packets that C delays fall out of the replay window."""

from __future__ import annotations

from harness.matrix import dumbbell
from harness.matrix.cases import matrix_tests
from harness.matrix.cell import Cell, Hop
from harness.matrix.matrix import Chart, Column, Matrix
from scoring import published

ROWS = published.rows("replay_matrix.csv")


def name(row: dict[str, str]) -> str:
    return f"ipsec-replay-win-{row['replay_window_packets']}-dualpi2-{row['rate_mbps']}mbit-{row['rtt_ms']}ms"


def cell(row: dict[str, str]) -> Cell:
    return Cell(
        name=name(row),
        flows=dumbbell.flows(["cubic", "prague"], float(row["rtt_ms"])),
        hops=(Hop(), dumbbell.bottleneck(float(row["rate_mbps"]), row["qdisc"]), Hop()),
        seconds=60,
        tunnel="ipsec",
        replay_window=int(row["replay_window_packets"]),
    )


MATRIX = Matrix(
    name="s9",
    title="S9: IPsec replay window through dualpi2",
    source='"L4S Tests", Dropped Packets for Tunnels with Replay Protection Enabled',
    cells=tuple(cell(row) for row in ROWS),
    window_s=40,
    columns=(
        Column(head="CUBIC Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="Prague Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="CUBIC retransmitted", metric="flows.0.retrans_share", digits=4),
        Column(head="CUBIC RTT ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="Prague RTT ms", metric="flows.1.rtt_mean_ms", digits=1),
    ),
    charts=tuple(
        Chart(
            title=f"{rate} Mbit/s: D_SS by replay window",
            unit="Mbit/s",
            series={"cubic": "flows.0.d_ss_mbps", "prague": "flows.1.d_ss_mbps"},
            cells={
                row["replay_window_packets"] if row["replay_window_packets"] != "0" else "off": name(row)
                for row in ROWS
                if row["rate_mbps"] == rate
            },
        )
        for rate in ("10", "20", "100")
    ),
    notes="Window in packets, 0 is off. Rule of thumb of the source: window >= rate/8/packet size x peak sojourn in C, "
    "166 at 20 Mbit/s, 1500 bytes and 100 ms.",
)
test_cell = matrix_tests(MATRIX)
