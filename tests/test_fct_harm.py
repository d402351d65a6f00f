# SPDX-License-Identifier: Apache-2.0
"""Harm to the completion of short CUBIC flows by one long CUBIC or Prague flow in a shared queue ("L4S Tests")."""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_targets, matrix_tests
from sojourn.harness.matrix.matrix import Bias, Chart, Column, Contrast, Correlation, Matrix, Reference
from sojourn.scoring.reference import published
from sojourn.traffic.spec import ShortFlows

ROWS = published.rows("fct_harm.csv")
RTTS = tuple(dict.fromkeys(int(row["rtt_ms"]) for row in ROWS))
LONG = {"solo": (), "cubic": ("cubic",), "prague": (dumbbell.PUBLISHED["prague"],)}
HEAD_START_S, COUNT, GAP_S = 20, 900, 0.2

STATISTICS = ("geometric_mean", "median", "p95")


def name(beside: str, rtt: int) -> str:
    return f"{beside}-fq_codel(1q)-50mbit-{rtt}ms"


def cell(beside: str, rtt: int) -> Cell:
    return Cell(
        name=name(beside, rtt),
        flows=dumbbell.flows(LONG[beside], rtt),
        hops=(dumbbell.bottleneck(50, "fq_codel flows 1"),),
        # Arrivals are random: 5 % more than their mean, and time for the last ones.
        seconds=HEAD_START_S + COUNT * GAP_S * 1.05 + 20,
        short_flows=ShortFlows(
            contender="cubic-noecn",
            rtt_us=rtt * 1000,
            start_s=HEAD_START_S,
            count=COUNT,
            mean_gap_s=GAP_S,
            remember_ssthresh=True,
        ),
        offloads=True,
    )


def theirs(row: dict[str, str]) -> dict[str, float]:
    names = {"geomean": "geometric_mean", "median": "median", "p95": "p95"}
    times = {f"short.{ours}_s": float(row[f"{name}_ms"]) / 1e3 for name, ours in names.items()}
    harm = {f"harm.{ours}": float(text) for name, ours in names.items() if (text := row[f"{name}_harm"])}
    return times | harm


MATRIX = Matrix(
    name="fct",
    title="Harm to flow completion times",
    source='"L4S Tests", Harm to Short TCP Flows',
    cells=tuple(cell(beside, rtt) for rtt in RTTS for beside in LONG),
    repeat=1,
    window_s=180,
    columns=(
        Column(head="geometric mean s", metric="short.geometric_mean_s", digits=3),
        Column(head="median s", metric="short.median_s", digits=3),
        Column(head="P95 s", metric="short.p95_s", digits=3),
        Column(head="harm, geometric mean", metric="harm.geometric_mean"),
        Column(head="harm, median", metric="harm.median"),
        Column(head="harm, P95", metric="harm.p95"),
        Column(head="unfinished", metric="short.unfinished", digits=0),
    ),
    reference=Reference(
        csv="fct_harm.csv",
        published={name(row["contender"] or "solo", int(row["rtt_ms"])): theirs(row) for row in ROWS},
        tolerance={f"short.{name}_s": 0.25 for name in STATISTICS},
        absolute={f"harm.{name}": 0.1 for name in STATISTICS},
        correlations=(Correlation(metric="harm.median", kind="spearman", least=0.9),),
        biases=(Bias(metric="short.median_s", most=0.15),),
    ),
    solo={name(beside, rtt): name("solo", rtt) for rtt in RTTS for beside in LONG if beside != "solo"},
    contrasts=tuple(
        Contrast(
            title=f"{rtt} ms: harm to the median with Prague less that with CUBIC, the victims' own kind",
            metric="harm.median",
            cell=name("prague", rtt),
            reference=name("cubic", rtt),
            kind="difference",
        )
        for rtt in RTTS
    ),
    charts=(
        Chart(
            title="Harm to flow completion times, 50 Mbit/s, one shared queue",
            unit="harm",
            series={"geometric mean": "harm.geometric_mean", "median": "harm.median", "P95": "harm.p95"},
            cells={f"{rtt} ms, {beside}": name(beside, rtt) for rtt in RTTS for beside in ("cubic", "prague")},
        ),
    ),
    notes="900 short CUBIC flows of lognormal length (P5 64 KiB, P95 2 MiB), 0.2 s apart in the mean (exponential). "
    "What CUBIC does to its own kind is the bar for Prague, which is prague-2020 (Ware et al., HotNets 2019). "
    "Harm is (with - solo)/with, of the time with a contender and alone: 0 none, 1 the worst. The same seed draws the "
    "same flows in all three. As in the "
    "source a flow's time has its handshake and its request, the short flows ask for no ECN, segmentation offloads "
    "stay on, and each begins with the slow start threshold that the last one left, as with Linux 5.4: without that "
    "memory, which Linux lost in 5.6, the harm to the median at 10 ms with CUBIC is 0.37 (published: 0.510).",
)
test_cell = matrix_tests(MATRIX)
test_targets = matrix_targets(MATRIX)
