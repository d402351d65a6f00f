# SPDX-License-Identifier: Apache-2.0
"""Two flows through cake, one queue and fair queues ("Some Congestion Experienced One and Two-Flow Tests")."""

from __future__ import annotations

from itertools import product

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Matrix, Reference
from sojourn.scoring.reference import published

PAIRS = (
    ("cubic", "cubic"), ("cubic", "dctcp"), ("cubic", "reno"), ("dctcp", "dctcp"), ("reno", "dctcp"), ("reno", "reno"),
)  # fmt: skip
SCE_PAIRS = (
    ("cubic", "dctcp-sce"), ("cubic", "reno-sce"), ("dctcp", "dctcp-sce"), ("dctcp-sce", "dctcp-sce"),
    ("reno", "dctcp-sce"), ("reno", "reno-sce"), ("reno-sce", "dctcp"), ("reno-sce", "dctcp-sce"),
    ("reno-sce", "reno-sce"),
)  # fmt: skip
OURS = (("cubic", "prague"), ("reno", "prague"), ("prague", "prague"))
MODES = ("flowblind", "triple-isolate")
SINGLE = "flowblind sce-single"
RATES = (1, 5, 10, 50, 100)
DELAYS = (0, 10, 20, 80)


def seconds(rate: int, delay: int) -> float:
    return 120 if (rate, delay) == (100, 80) else 60 if delay == 80 or rate * delay >= 2000 else 30


def sce_seconds(delay: int) -> float:
    """Shorter than the others': most of the shares stand after a few seconds, and these are 660 cells."""
    return 40 if delay >= 80 else 20


def name(mode: str, pair: tuple[str, str], rate: float, delay: int) -> str:
    return f"{pair[0]}-vs-{pair[1]}-{mode.replace(' ', '-')}-{rate:g}mbit-{delay}ms"


def cell(mode: str, pair: tuple[str, str], rate: int, delay: int) -> Cell:
    # The source marks SCE always, which is nothing to CUBIC and Reno.
    marking = " sce" if mode in MODES and (pair in SCE_PAIRS or "dctcp" in pair) else ""
    return Cell(
        name=name(mode, pair, rate, delay),
        flows=dumbbell.flows(pair, delay),
        hops=(
            dumbbell.bottleneck(dumbbell.LINK_MBPS, f"cake bandwidth {rate}mbit {mode}{marking}"),
            *dumbbell.before_sce_receiver(pair),
        ),
        seconds=sce_seconds(delay) if pair in SCE_PAIRS or mode == SINGLE else seconds(rate, delay),
        tso_2020=True,
    )


def figures() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for file, column, metric in (
        ("sce_two_flow_throughput.csv", "mean_tcp_throughput_mbps", "goodput_mbps"),
        ("sce_two_flow_rtt.csv", "mean_tcp_rtt_ms", "rtt_mean_ms"),
    ):
        for row in published.rows(file):
            where = float(row["cake_bandwidth_mbps"]), int(row["netem_delay_ms"])
            cell = found.setdefault(name(row["cake_mode"], (row["cc1"], row["cc2"]), *where), {})
            cell[f"flows.{int(row['flow']) - 1}.{metric}"] = float(row[column])
    for cell in found.values():
        # The source's own formula; where it prints the index, that is it to 0.0005.
        x, y = cell["flows.0.goodput_mbps"], cell["flows.1.goodput_mbps"]
        cell["jain_whole"] = (x + y) ** 2 / (2 * (x * x + y * y))
    for row in published.rows("sce_jain.csv"):
        where = float(row["cake_bandwidth_mbps"]), int(row["netem_delay_ms"])
        found[name(row["cake_mode"], (row["cc1"], row["cc2"]), *where)]["jain_whole"] = float(row["jains_index"])
    return found


MATRIX = Matrix(
    name="two-flow",
    title="Two flows through cake",
    source='"Some Congestion Experienced One and Two-Flow Tests", 5.2, A.3 to A.8',
    cells=(
        *(cell(*point) for point in product(MODES, (*PAIRS, *SCE_PAIRS, *OURS), RATES, DELAYS)),
        *(cell(*point) for point in product((SINGLE,), (*PAIRS, *SCE_PAIRS), RATES, DELAYS)),
    ),
    repeat=1,
    window_s=28,
    columns=(
        Column(head="flow 1 Mbit/s", metric="flows.0.goodput_mbps"),
        Column(head="flow 2 Mbit/s", metric="flows.1.goodput_mbps"),
        Column(head="Jain's index", metric="jain_whole", digits=3),
        Column(head="TCP RTT 1 ms", metric="flows.0.rtt_mean_ms"),
        Column(head="TCP RTT 2 ms", metric="flows.1.rtt_mean_ms"),
    ),
    reference=Reference(
        csv="sce_two_flow_throughput.csv, sce_two_flow_rtt.csv, sce_jain.csv",
        published=figures(),
        tolerance={"jain_whole": 0.1, "flows.0.rtt_mean_ms": 0.25},
    ),
    charts=tuple(
        Chart(
            title=f"cake {mode}, {delay} ms, 50 Mbit/s: mean rates",
            unit="Mbit/s",
            series={"flow 1": "flows.0.goodput_mbps", "flow 2": "flows.1.goodput_mbps"},
            cells={
                " : ".join(pair): name(mode, pair, 50, delay)
                for pair in (*PAIRS, *SCE_PAIRS, *(OURS if mode in MODES else ()))
            },
        )
        for mode, delay in product((*MODES, SINGLE), (10, 80))
    ),
    notes="Mean of the whole flow, slow start included. DCTCP's receiver hears of no packet that is marked SCE, as the "
    "source's: a middlebox clears ECT(1) of its flows. Packets of several segments are made as in 2020 (tso_2020).",
)
test_cell = matrix_tests(MATRIX)
