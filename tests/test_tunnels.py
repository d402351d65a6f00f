# SPDX-License-Identifier: Apache-2.0
"""S5: two flows inside one tunnel through fq_codel or CAKE, which see its outer headers ("L4S Tests", Scenario 5).

WireGuard is one UDP flow whatever is inside. IP in FOU is one too with a fixed source port; with one that the kernel
draws from the inner flow's hash (`encap-sport auto`) it is several. Which of the two the source used is not said:
both are run. The source's rule that clears the second flow's ECN field matches TCP headers, of which the middlebox sees
none: that flow has ECN.
"""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Column, Contrast, Expectation, Matrix
from sojourn.scoring.reference import published

ROWS = published.rows("tunnels_matrix.csv")
TUNNELS = {"wireguard": {"wireguard": "wireguard"}, "ipfou": {"ipfou": "fou", "ipfou-auto": "fou-auto"}}


def cell(row: dict[str, str], name: str, kind: str, qdisc: str = "") -> Cell:
    rate = float(row["rate_mbps"])
    if qdisc:
        hop = dumbbell.bottleneck(dumbbell.LINK_MBPS, f"{qdisc} bandwidth {row['rate_mbps']}mbit")
    else:
        hop = dumbbell.bottleneck(rate, row["qdisc"])
    return Cell(
        name=f"{name}-{row['cc1']}-vs-{row['cc2']}-{qdisc or row['qdisc']}-{row['rate_mbps']}mbit-{row['rtt_ms']}ms",
        flows=dumbbell.flows([dumbbell.PUBLISHED[row[flow]] for flow in ("cc1", "cc2")], float(row["rtt_ms"])),
        hops=(Hop(), hop, Hop()),
        seconds=60,
        tunnel=kind,  # type: ignore[arg-type]
    )


OUTSIDE = cell(ROWS[0], "plain", "")
#: A program takes every packet in hand: at 50 Mbit/s that is half a minute of a core.
OPENVPN = tuple(
    cell({**ROWS[0], "rate_mbps": "10"}, kind, kind).model_copy(update={"seconds": 30})
    for kind in ("openvpn", "openvpn-plain")
)
MATRIX = Matrix(
    name="s5",
    title="S5: tunnels",
    source='"L4S Tests", Scenario 5',
    cells=(
        *(cell(row, *made) for row in ROWS for made in TUNNELS[row["tunnel"]].items()),
        cell(ROWS[0], "wireguard", "wireguard", "cake"),
        *OPENVPN,
        OUTSIDE,
    ),
    repeat=1,
    window_s=40,
    windows={it.name: 20 for it in OPENVPN},
    columns=(
        Column(head="Prague Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="other flow Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="ratio : 1", metric="ratio", digits=1),
        Column(head="Prague RTT ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="other flow RTT ms", metric="flows.1.rtt_mean_ms", digits=1),
        Column(head="queues in use", metric="active_queues", digits=1),
        Column(head="Prague CE share", metric="flows.0.ce_share", digits=4),
    ),
    expectations=(
        Expectation(metric="active_queues", low=1, high=1, cells="^(wireguard|ipfou|openvpn(-plain)?)-p.*fq_codel"),
        Expectation(metric="active_queues", low=1.5, high=3, cells="^(ipfou-auto|plain)"),
        Expectation(metric="ratio", low=5, cells="^(wireguard|ipfou)-prague"),
        Expectation(metric="flows.0.ce_share", high=0, cells="^openvpn"),
        Expectation(metric="ratio", low=0.8, high=1.25, cells="^(ipfou-auto|plain)"),
    ),
    contrasts=tuple(
        Contrast(
            title=f"{kind}: Prague's share over that outside a tunnel",
            metric="ratio",
            cell=name,
            reference=OUTSIDE.name,
        )
        for kind, name in (
            ("WireGuard", cell(ROWS[0], "wireguard", "wireguard").name),
            ("IP in FOU, one source port", cell(ROWS[2], "ipfou", "fou").name),
            ("IP in FOU, a source port for each flow", cell(ROWS[2], "ipfou-auto", "fou-auto").name),
        )
    ),
    notes="Queues in use: the median of fq_codel's flows with packets; a tunnel that is one flow is one queue. "
    "OpenVPN's packets are not ECN-capable whatever is inside: all flows in it hear of drops only. "
    "Published are the runs' names only, no figures.",
)
test_cell = matrix_tests(MATRIX)
