# SPDX-License-Identifier: Apache-2.0
"""Pantheon's schemes: three flows of one, 10 s apart, 30 s, over a link like the cellular one that they were run on."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from statistics import fmean

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.delivery_trace import DeliveryTrace
from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Expectation, Matrix, Reference, Summary
from sojourn.scoring.reference import published
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.program import PROGRAMS
from sojourn.traffic.spec import Probe

PUBLISHED = {
    "TCP Cubic": "cubic",
    "TCP BBR": "bbr",
    "TCP Vegas": "vegas",
    "LEDBAT": "ledbat",
    "QUIC Cubic": "quic-cubic",
    "SCReAM": "scream",
    "WebRTC media": "webrtc",
}
# The kernel's own, without those that differ by ECN alone.
CCS = [name for name, contender in CONTENDERS.items() if name == contender.cc]
OURS = ["quic-cubic", "quic-bbr", "webrtc", "scream"]
# 600 ms of full frames: what BBR's published delay says of the cellular path's buffer.
DEEP = "pfifo limit 600"
RATE, RTT = 12, 46
CELLULAR = DeliveryTrace(mean_mbps=13, seconds=30)
PATHS: dict[str, Hop] = {
    "cellular": dumbbell.slotted(CELLULAR, DEEP),
    "pfifo(600)": dumbbell.bottleneck(RATE, DEEP),
    "fq_codel": dumbbell.bottleneck(RATE, "fq_codel"),
    "dualpi2": dumbbell.bottleneck(RATE, "dualpi2"),
}
LEARNED = "its trained model and the program around it, as"
#: What the schemes need that no package registry has; each is plugged in as a program (docs/extending.md).
ELSEWHERE = {
    "Copa": "Copa's own sender and receiver (genericCC), as a program of entry point sojourn.programs",
    "FillP": "Huawei's FillP, as a program of entry point sojourn.programs",
    "FillP-Sheep": "Huawei's FillP-Sheep, as a program of entry point sojourn.programs",
    "Indigo": f"{LEARNED} a program of entry point sojourn.programs",
    "Indigo-MusesD": f"{LEARNED} a program of entry point sojourn.programs",
    "Indigo-MusesT": f"{LEARNED} a program of entry point sojourn.programs",
    "PCC-Allegro": "PCC's UDT sender and receiver, as a program of entry point sojourn.programs",
    "PCC-Expr": "PCC's experimental sender and receiver, as a program of entry point sojourn.programs",
    "Sprout": "Sprout's own client and server, as a program of entry point sojourn.programs",
    "TaoVA-100x": f"{LEARNED} a program of entry point sojourn.programs",
    "Verus": "Verus's own client and server, as a program of entry point sojourn.programs",
    "PCC-Vivace": "PCC Vivace's sender and receiver, as a program of entry point sojourn.programs",
}


def name(scheme: str, path: str) -> str:
    return f"{scheme}-{path}"


def cell(scheme: str, path: str) -> Cell:
    program = PROGRAMS.get(scheme)
    return Cell(
        name=name(scheme, path),
        flows=dumbbell.flows([scheme] * 3, RTT, gap_s=10),
        hops=(PATHS[path],),
        seconds=30,
        per_packet=True,
        probes=(Probe(rtt_us=RTT * 1000, ecn="ect1" if scheme.startswith("prague") else "not-ect"),),
        needs=program.missing_tools() if program else "",
    )


def missing(scheme: str, needs: str) -> Cell:
    probe = Probe(rtt_us=RTT * 1000)
    return Cell(name=name(scheme, "cellular"), probes=(probe,), hops=(PATHS["cellular"],), seconds=30, needs=needs)


def theirs() -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}
    for row in published.rows("pantheon_schemes.csv"):
        if scheme := PUBLISHED.get(row["scheme"]):
            figures[name(scheme, "cellular")] = {
                f"packets.flows.{n}.{metric}": float(row[f"flow{n + 1}_mean_{column}"]) * unit
                for n, (metric, column, unit) in product(
                    range(3),
                    (
                        ("egress_mbps", "avg_throughput_mbps", 1),
                        ("p95_owd_ms", "p95_owd_ms", 1),
                        ("loss", "loss_pct", 0.01),
                    ),
                )
            }
    return figures


def totals() -> dict[str, tuple[float, float]]:
    """Of each published scheme the mean throughput (Mbit/s) and P95 delay (ms) of its runs, all flows together."""
    runs = defaultdict(list)
    for row in published.rows("pantheon_totals.csv"):
        runs[row["scheme"]].append((float(row["avg_throughput_mbps"]), float(row["p95_owd_ms"])))
    return {
        scheme: (fmean(mbps), fmean(ms)) for scheme, points in runs.items() for mbps, ms in [zip(*points, strict=True)]
    }


def summary(path: str, title: str) -> Summary:
    beside = totals() if path == "cellular" else {}
    schemes = [*CCS, *OURS] if path in ("cellular", "pfifo(600)") else CCS
    return Summary(title=title, cells={scheme: name(scheme, path) for scheme in schemes}, published=beside)


MATRIX = Matrix(
    name="pantheon",
    title="Three flows of one scheme, as Pantheon runs them",
    source='"Pantheon Report" (AWS India 1 to India cellular, 2019-01-02)',
    cells=(
        *(cell(*point) for point in product([*CCS, *OURS], ("cellular", "pfifo(600)"))),
        *(cell(*point) for point in product(CCS, ("fq_codel", "dualpi2"))),
        *(missing(scheme, needs) for scheme, needs in ELSEWHERE.items()),
    ),
    repeat=1,
    window_s=10,
    columns=(
        *(Column(head=f"flow {n + 1} Mbit/s", metric=f"packets.flows.{n}.egress_mbps") for n in range(3)),
        *(Column(head=f"flow {n + 1} P95 ms", metric=f"packets.flows.{n}.p95_owd_ms", digits=1) for n in range(3)),
        *(Column(head=f"flow {n + 1} lost", metric=f"packets.flows.{n}.loss", digits=4) for n in range(3)),
        Column(head="all Mbit/s", metric="packets.total.egress_mbps"),
        Column(head="all P95 ms", metric="packets.total.p95_owd_ms", digits=1),
        Column(head="all lost", metric="packets.total.loss", digits=4),
    ),
    expectations=(
        # RFC 6817: a queue of 100 ms, on a path of 23 ms, and more with latecomers, which take that queue for the path.
        Expectation(metric="packets.flows.0.p95_owd_ms", low=115, high=200, cells=r"^ledbat-pfifo"),
        Expectation(metric="packets.total.egress_mbps", low=10, high=RATE, cells=r"^(?!webrtc|scream).*-pfifo\(600\)$"),
        # Behind an AQM it is a loss-based flow that seldom loses.
        Expectation(metric="packets.total.loss", high=0.02, cells=r"^ledbat-(fq_codel|dualpi2)$"),
        Expectation(metric="packets.total.p95_owd_ms", high=60, cells=r"^prague-dualpi2$"),
    ),
    reference=Reference(csv="pantheon_schemes.csv", published=theirs(), tolerance={}),
    summaries=(
        summary("cellular", "A link like the cellular one, 13 Mbit/s on average; published: the cellular one"),
        *(summary(path, f"{RATE} Mbit/s, {path}") for path in PATHS if path != "cellular"),
    ),
    charts=tuple(
        Chart(
            title=f"{path}: queue delay",
            unit="ms",
            series={"": "probes.0.ccdf"},
            cells={cc: name(cc, path) for cc in CCS},
            ccdf=True,
        )
        for path in PATHS
    ),
    notes="Each flow is measured by its own packets: throughput is what leaves the path from the first packet to the "
    "last, with headers; P95 is of the one-way delays of those that came; what is on the way at the end counts as "
    "lost. The source's cellular path varied from run to run and cannot be had: ours is a schedule of packet slots by "
    "Sprout's model of such links, with a buffer of 600 packets, so the order of schemes compares and not their "
    "figures. QUIC is quinn's, which calls its BBR experimental; LEDBAT is RFC 6817 over TCP. WebRTC is str0m's, with "
    "libwebrtc's congestion control, for a video of at most 1.7 Mbit/s, what Chromium sends of a camera of 640x480 as "
    "the source's page asks for; SCReAM is RFC 8298 by a program of ours, without ECN, for a video without such a "
    "bound: no registry has Ericsson's. The curves are of "
    "probes, which have a queue of their own in fq_codel.",
)
test_cell = matrix_tests(MATRIX)
