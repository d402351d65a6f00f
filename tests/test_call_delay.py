# SPDX-License-Identifier: Apache-2.0
"""Between-flow induced delay: what a call in dualpi2's L queue does to the round trips of others in that queue."""

from __future__ import annotations

from math import inf

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_targets, matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Contrast, Curve, Matrix, Reference
from sojourn.scoring.reference import published
from sojourn.traffic.spec import Probe, RecordedCall

RATES = (5, 10, 20)
QUEUES = {"L": "dualpi2", "fq": "fq_codel"}
LABELS = {"L": "call in L (dualpi2)", "fq": "call in fq_codel"}
NO_LOAD, NAMES = "noload", {"L": "dualpi2_l", "fq": "fq_codel"}
ROWS = {row["run"]: row for row in published.rows("call_induced_delay.csv")}
PATH_MS = float(ROWS[NO_LOAD]["p50_ms"])
"""Round trip of the published path: machines and links, no added delay."""


def runs_of(queue: str, rate: int) -> list[str]:
    """The published runs of a cell: of one label, 2.5mbps or 25mbps, or both."""
    names = (f"bi_{NAMES[queue]}_{label}_{rate}mbps" for label in ("2.5mbps", "25mbps"))
    return [name for name in names if name in ROWS]


def curve(run: str) -> Curve:
    """What the queues added in a published run: points (ms above the path's median, percent of the samples above)."""
    rows = [row for row in published.rows("call_induced_delay_ccdf.csv") if row["run"] == run]
    return tuple((max(0.0, float(row["rtt_ms"]) - PATH_MS), float(row["percent_above"])) for row in rows)


def theirs(run: str) -> dict[str, float]:
    return {f"probes.0.{name}": float(ROWS[run][name]) for name in ("p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms")}


def cell(rate: int, name: str, qdisc: str, call: bool) -> Cell:
    return Cell(
        name=f"{name}-{rate}mbit",
        hops=(dumbbell.bottleneck(rate, qdisc),),
        seconds=60,
        call=RecordedCall(ecn="ect1", rtt_us=round(PATH_MS * 1000)) if call else None,
        probes=(Probe(rtt_us=round(PATH_MS * 1000), ecn="ect1", round_trip=True),),
    )


def above_fq(rate: int, low: float = -inf) -> Contrast:
    title = f"{rate} Mbit/s: P99 with the call in L over that in fq_codel"
    ours, theirs = (f"call-in-{queue}-{rate}mbit" for queue in QUEUES)
    return Contrast(title=title, metric="probes.0.p99_ms", cell=ours, reference=theirs, low=low)


MATRIX = Matrix(
    name="call-delay",
    title="Delay that a call induces in others",
    source='"L4S Tests", Between-Flow Induced Delay',
    cells=tuple(
        made
        for rate in RATES
        for made in (
            *(cell(rate, f"call-in-{name}", qdisc, call=True) for name, qdisc in QUEUES.items()),
            cell(rate, "solo", "dualpi2", call=False),
        )
    ),
    columns=(
        Column(head="P50 ms", metric="probes.0.p50_ms"),
        Column(head="P90 ms", metric="probes.0.p90_ms"),
        Column(head="P99 ms", metric="probes.0.p99_ms"),
        Column(head="P99.9 ms", metric="probes.0.p999_ms"),
        Column(head="max ms", metric="probes.0.max_ms"),
        Column(head="probes lost", metric="probes.0.loss", digits=4),
        Column(head="call down Mbit/s", metric="call.0.mbps"),
        Column(head="call up Mbit/s", metric="call.1.mbps"),
    ),
    reference=Reference(
        csv="call_induced_delay.csv",
        published={
            f"call-in-{queue}-{rate}mbit": theirs(runs_of(queue, rate)[0]) for rate in RATES for queue in QUEUES
        },
        tolerance={},
    ),
    contrasts=(
        above_fq(5, 1.0),
        above_fq(10),
        above_fq(20),
        *(
            Contrast(
                title=f"{rate} Mbit/s: P99 of the idle path over that with the call in {name}",
                metric="probes.0.p99_ms",
                cell=f"solo-{rate}mbit",
                reference=f"call-in-{queue}-{rate}mbit",
                high=1.0,
            )
            for rate in RATES
            for queue, name in (("L", "L"), ("fq", "fq_codel"))
        ),
    ),
    charts=tuple(
        Chart(
            title=f"{rate} Mbit/s: round trips of the probe above the path's",
            unit="ms",
            series={"": "probes.0.ccdf"},
            cells={
                **{LABELS[queue]: f"call-in-{queue}-{rate}mbit" for queue in QUEUES},
                "no call": f"solo-{rate}mbit",
            },
            ccdf=True,
            published={
                **{LABELS[queue]: curve(runs_of(queue, rate)[0]) for queue in QUEUES},
                **{f"{LABELS[queue]}, again": curve(run) for queue in QUEUES for run in runs_of(queue, rate)[1:]},
                "no call": curve(NO_LOAD),
            },
        )
        for rate in RATES
    ),
    notes="The recorded Skype call of 2.6 Mbit/s, both ways together, its packets ECT(1), and a probe of ECT(1) each "
    "10 ms; both directions have the queue. In dualpi2 the probe shares the L queue with the call, in fq_codel it has "
    "a queue of its own. Round trips; the curves leave out the path's 0.95 ms (the median without load, published), "
    "the columns hold it. The recording is of the published run in L at 5 Mbit/s; the other published runs are of "
    "other calls, so those cells are predictions. The source has two runs of each rate in L: the table has one of "
    "them, the curves both.",
)
test_cell = matrix_tests(MATRIX)
test_targets = matrix_targets(MATRIX)
