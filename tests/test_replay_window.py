# SPDX-License-Identifier: Apache-2.0
"""S9: CUBIC and Prague in one encrypted tunnel through dualpi2: packets that C delays fall out of the replay window.

Besides the published rows: the largest windows that there are (IPsec in Linux 4096, WireGuard always 8192), and an
attacker in place of Prague, whose small ECT(1) packets overtake those of ten CUBICs until the window has passed them.
"""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Contrast, Expectation, Matrix
from sojourn.scoring.reference import published
from sojourn.traffic.spec import Probe

ROWS = published.rows("replay_matrix.csv")
RTT_MS = 20
POINTS = [(int(row["rate_mbps"]), int(row["replay_window_packets"])) for row in ROWS]
LARGEST = 4096
SOJOURNS = tuple(Probe(rtt_us=RTT_MS * 1000, ecn=ecn) for ecn in ("not-ect", "ect1"))  # type: ignore[arg-type]
ATTACK = Probe(rtt_us=RTT_MS * 1000, ecn="ect1", interval_s=0.0005)
"""2000 packets of 172 bytes a second, 4 Mbit/s outside."""
ATTACKED = (0, 32, 64, 256, LARGEST)
ATTACKED_MBPS = 10
VICTIMS = 10
"""CUBICs: at two segments each they still queue for 24 ms, in which 48 of the attacker's packets overtake."""


def name(rate: int, window: int, how: str = "ipsec") -> str:
    return f"{how}-replay-win-{window}-dualpi2-{rate}mbit-{RTT_MS}ms"


def cell(rate: int, window: int, how: str = "ipsec") -> Cell:
    attacked = how == "attack"
    cubic, prague = (dumbbell.PUBLISHED[cc] for cc in ("cubic", "prague"))
    return Cell(
        name=name(rate, window, how),
        flows=dumbbell.flows([cubic] * VICTIMS if attacked else [cubic, prague], RTT_MS),
        hops=(Hop(), dumbbell.bottleneck(rate, dumbbell.DUALPI2_2020), Hop()),
        seconds=30 if attacked else 60,
        probes=(*SOJOURNS, ATTACK) if attacked else SOJOURNS,
        tunnel="wireguard" if how == "wireguard" else "ipsec",
        replay_window=0 if how == "wireguard" else window,
    )


def attack(window: int) -> str:
    return name(ATTACKED_MBPS, window, "attack")


MATRIX = Matrix(
    name="s9",
    title="S9: replay windows through dualpi2",
    source='"L4S Tests", Dropped Packets for Tunnels with Replay Protection Enabled',
    cells=(
        *(cell(*point) for point in POINTS),
        cell(100, LARGEST),
        cell(100, 8192, "wireguard"),
        *(cell(ATTACKED_MBPS, window, "attack") for window in ATTACKED),
    ),
    repeat=1,
    window_s=40,
    windows={attack(window): 20 for window in ATTACKED},
    columns=(
        Column(head="CUBIC Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="other flow Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="all down, utilisation", metric="utilisation"),
        Column(head="too late for the window", metric="replay.late", digits=0),
        Column(head="their share", metric="replay.late_share", digits=4),
        Column(head="window needed", metric="replay.needed", digits=0),
        Column(head="C peak ms", metric="replay.c_peak_ms", digits=1),
        Column(head="L peak ms", metric="replay.l_peak_ms", digits=1),
        Column(head="CUBIC retransmitted", metric="flows.0.retrans_share", digits=4),
        Column(head="CUBIC RTT ms", metric="flows.0.rtt_mean_ms", digits=1),
        Column(head="other flow RTT ms", metric="flows.1.rtt_mean_ms", digits=1),
    ),
    expectations=(
        Expectation(metric="replay.late", low=0, high=0, cells=f"win-(0|{LARGEST})-"),
        Expectation(metric="replay.late", low=100, cells="^attack-replay-win-(32|64)-|win-(32|64)-dualpi2-100"),
    ),
    contrasts=(
        *(
            Contrast(
                title=f"{rate} Mbit/s: CUBIC with a window of {window} over CUBIC without",
                metric="flows.0.d_ss_mbps",
                cell=name(rate, window),
                reference=name(rate, 0),
            )
            for rate, window in ((20, 32), (100, 32), (100, 64), (100, LARGEST))
        ),
        *(
            Contrast(
                title=f"attacked: ten CUBICs with a window of {window} over those without",
                metric="utilisation",
                cell=attack(window),
                reference=attack(0),
            )
            for window in ATTACKED[1:]
        ),
    ),
    charts=(
        *(
            Chart(
                title=f"{rate} Mbit/s: D_SS by replay window",
                unit="Mbit/s",
                series={"cubic": "flows.0.d_ss_mbps", "prague": "flows.1.d_ss_mbps"},
                cells={str(window) if window else "off": name(rate, window) for of, window in POINTS if of == rate},
            )
            for rate in (10, 20, 100)
        ),
        Chart(
            title="10 Mbit/s, ten CUBICs, 2000 small ECT(1) packets a second: their utilisation by replay window",
            unit="",
            series={"cubic": "utilisation"},
            cells={str(window) if window else "off": attack(window) for window in ATTACKED},
        ),
    ),
    notes="Window in packets, 0 is off. Rule of thumb of the source: window >= rate/8/packet size x peak sojourn in C, "
    "166 at 20 Mbit/s, 1500 bytes and 100 ms; 'window needed' is that of the longest sojourn seen. It counts full "
    "packets: an attacker's are smaller, so that more of them overtake. Late are the packets that the receiving end "
    "refused as too old. WireGuard, which does not count them, has 8192. With the first CUBIC is Prague, in the "
    "attacked cells another CUBIC.",
)
test_cell = matrix_tests(MATRIX)
