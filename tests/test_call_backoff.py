# SPDX-License-Identifier: Apache-2.0
"""Backoff: how much goodput a download loses to a call that shares its line, by the queue that the call is in."""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_targets, matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Contrast, Curve, Difference, Matrix, Reference
from sojourn.scoring.reference import published
from sojourn.traffic.spec import RecordedCall

RTT_MS = 160
SECONDS = 120
STEADY = "flows.0.window_goodput_mbps"
# CUBIC with the call in C is published whole and in two phases: the whole is compared.
ROWS = tuple(row for row in published.rows("call_backoff.csv") if row["state"] == "steady")


def name(row: dict[str, str], queue: str | None = None) -> str:
    queue = queue or row["call_queue"]
    where = {"none": "alone", "single": "call-beside"}.get(queue, f"call-in-{queue}")
    return f"{row['cca']}-{row['qdisc']}-{where}"


def call(row: dict[str, str]) -> RecordedCall | None:
    if row["call_queue"] == "none":
        return None
    return RecordedCall(
        bitrate_bps=dumbbell.bps(float(row["call_bitrate_mbps"])),
        ecn="ect1" if row["call_queue"] == "L" else "not-ect",
        ecn_above_bytes=int(row["l_above_bytes"] or 0),
        rtt_us=RTT_MS * 1000,
    )


def cell(row: dict[str, str]) -> Cell:
    return Cell(
        name=name(row),
        flows=dumbbell.flows([row["cca"]], RTT_MS),
        hops=(dumbbell.bottleneck(float(row["bottleneck_mbps"]), row["qdisc"]),),
        seconds=SECONDS,
        call=call(row),
    )


def theirs(row: dict[str, str]) -> dict[str, float]:
    figures = {STEADY: row["goodput_mbps"], "backoff_mbps": row["backoff_mbps"]}
    return {metric: float(text) for metric, text in figures.items() if text}


def each_second(row: dict[str, str]) -> Curve:
    """The published goodput over time: (middle of each second in s, Mbit/s); empty where it is a picture only."""
    queue = {"none": "", "single": ""}.get(row["call_queue"], f"_{row['call_queue'].lower()}")
    load = "iperf3" if row["call_queue"] == "none" else "skype"
    run = f"{load}_{row['qdisc']}{queue}_{row['cca']}_20mbps_160ms"
    rows = [row for row in published.rows("call_backoff_series.csv") if row["run"] == run]
    return tuple(((float(row["start_s"]) + float(row["end_s"])) / 2, float(row["mbps"])) for row in rows)


def backoff(cca: str, qdisc: str, queue: str, title: str, low: float, high: float = float("inf")) -> Contrast:
    row = {"cca": cca, "qdisc": qdisc}
    alone, reference = name(row, "none"), name(row, queue)
    return Contrast(title=title, metric=STEADY, cell=alone, reference=reference, kind="difference", low=low, high=high)


MATRIX = Matrix(
    name="call-backoff",
    title="Backoff of a download with a call, 20 Mbit/s, 160 ms",
    source='"L4S Tests", Underutilization with Bursty Traffic',
    cells=tuple(cell(row) for row in ROWS),
    windows={name(row): SECONDS - float(row["t_start_s"]) for row in ROWS},
    tail_s=0,
    columns=(
        Column(head="goodput Mbit/s", metric=STEADY),
        Column(head="backoff Mbit/s", metric="backoff_mbps"),
        Column(head="call down Mbit/s", metric="call.0.mbps"),
        Column(head="TCP RTT ms", metric="flows.0.rtt_mean_ms"),
        Column(head="CE share", metric="flows.0.ce_share", digits=4),
    ),
    reference=Reference(
        csv="call_backoff.csv",
        published={name(row): theirs(row) for row in ROWS},
        tolerance={STEADY: 0.1, "backoff_mbps": 0.25},
    ),
    differences=tuple(
        Difference(cell=name(row), metric="backoff_mbps", of=STEADY, more=name(row, "none"), less=name(row))
        for row in ROWS
        if row["call_queue"] != "none"
    ),
    contrasts=(
        backoff("prague", "dualpi2", "L", "Prague's backoff to a call in L, Mbit/s", low=2.3),
        backoff("cubic", "codel", "single", "CUBIC's backoff in CoDel, Mbit/s", 0.5 * 1.8, 1.5 * 1.8),
    ),
    charts=(
        Chart(
            title="Goodput in the published window, by the queue of the call",
            unit="Mbit/s",
            series={"": STEADY},
            cells={name(row): name(row) for row in ROWS},
        ),
        Chart(
            title="Backoff; the call sends 1.6 Mbit/s down against Prague, 1.2 against CUBIC",
            unit="Mbit/s",
            series={"": "backoff_mbps"},
            cells={name(row): name(row) for row in ROWS if row["call_queue"] != "none"},
        ),
        Chart(
            title="Goodput of each second",
            unit="Mbit/s",
            series={"": "flows.0"},
            cells={name(row): name(row) for row in ROWS},
            over_time=True,
            published={name(row): points for row in ROWS if (points := each_second(row))},
        ),
    ),
    notes="Backoff is the goodput without the call less that with it, each over its published window, which begins 2 "
    "to 43 s after the start and ends with the run. The call is the recorded Skype call, at the published rate of both "
    "ways together (2.3 Mbit/s against Prague, 1.8 against CUBIC). In L are its packets of more than 1024 bytes, by a "
    "mistake that the source states; the others are in C.",
)
test_cell = matrix_tests(MATRIX)
test_targets = matrix_targets(MATRIX)
