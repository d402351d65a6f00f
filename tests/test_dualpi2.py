# SPDX-License-Identifier: Apache-2.0
"""dualpi2 as "Comparing dualpi2 versions" swept it: equal and mixed RTTs, overload; two sets of parameters.

CUBIC in C with a scalable flow in L. The published parameters put each ECN-capable packet into L (`any_ect`), so
there CUBIC has no ECN and the scalable flow may be DCTCP, which sends ECT(0).
"""

from __future__ import annotations

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cases import matrix_tests
from sojourn.harness.matrix.matrix import Chart, Column, Contrast, Matrix
from sojourn.scoring.reference import published
from sojourn.traffic.spec import Flow, Probe

RATES, RTTS = (4, 12, 40, 120, 200), (5, 10, 20, 50, 100)
MIXED = ((10, 20), (20, 10), (10, 50), (50, 10), (10, 100), (100, 10))
# Of what the link carries, by one flow of UDP with one flow of each kind.
OVERLOADS = (50, 100, 150, 200)
PAIRS = {"published": ("cubic-noecn", "dctcp"), "default": ("cubic", "prague")}


def parameters() -> str:
    """The published parameters as tc takes them."""
    of = {
        row["item"]: row["value"] for row in published.rows("dualpi2_compare.csv") if row["record_type"] == "parameter"
    }
    times = [f"{name} {float(of[name]):g}ms" for name in ("target", "tupdate", "step_thresh")]
    counts = [f"{name} {of[name]}" for name in ("limit", "alpha", "beta", "coupling_factor")]
    flags = [name for name in ("any_ect", "drop_on_overload", "drop_dequeue") if of[name] == "on"]
    return " ".join(["dualpi2", *counts, *times, *flags, f"classic_protection {of['classic_protection']}%"])


VERSIONS = {"published": parameters(), "default": "dualpi2"}


def cell(version: str, name: str, rate: int, cubic_ms: int, scalable_ms: int, udp: tuple[Flow, ...] = ()) -> Cell:
    cubic, scalable = PAIRS[version]
    ecn = "ect0" if scalable == "dctcp" else "ect1"
    return Cell(
        name=f"{version}-{name}",
        flows=(*dumbbell.flows([cubic, scalable], [cubic_ms, scalable_ms]), *udp),
        hops=(dumbbell.bottleneck(rate, VERSIONS[version]),),
        seconds=30,
        probes=(Probe(rtt_us=cubic_ms * 1000), Probe(rtt_us=scalable_ms * 1000, ecn=ecn)),
    )


def overload(version: str, kind: str, percent: int) -> Cell:
    rate, rtt = 12, 10
    udp = Flow(contender=kind, rtt_us=rtt * 1000, rate_bps=rate * percent * 10_000, start_s=5)
    return cell(version, f"overload-{kind}-{percent}", rate, rtt, rtt, (udp,))


EQUAL = {(rate, rtt): f"equal-{rate}mbit-{rtt}ms" for rate in RATES for rtt in RTTS}
MIX = {pair: f"mixed-40mbit-cubic-{pair[0]}ms-scalable-{pair[1]}ms" for pair in MIXED}
KINDS = ("udp", "udp-ect1")
C, L = {"C": "probes.0.ccdf"}, {"L": "probes.1.ccdf"}


def delays(title: str, series: dict[str, str], cells: dict[str, str]) -> Chart:
    return Chart(title=f"{title}: queue delay", unit="ms", series=series, cells=cells, ccdf=True)


def side_by_side(name: str) -> dict[str, str]:
    return {f"{version} parameters": f"{version}-{name}" for version in VERSIONS}


MATRIX = Matrix(
    name="dualpi2",
    title="dualpi2: equal RTTs, mixed RTTs, overload; the published parameters and the kernel's own",
    source='"Comparing dualpi2 versions", families A to C (its curves are not published as numbers)',
    cells=tuple(
        one
        for version in VERSIONS
        for one in (
            *(cell(version, name, rate, rtt, rtt) for (rate, rtt), name in EQUAL.items()),
            *(cell(version, name, 40, *pair) for pair, name in MIX.items()),
            *(overload(version, kind, percent) for kind in KINDS for percent in OVERLOADS),
        )
    ),
    repeat=1,
    window_s=20,
    columns=(
        Column(head="CUBIC Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="scalable Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="UDP Mbit/s", metric="flows.2.d_ss_mbps"),
        Column(head="CUBIC rate", metric="flows.0.normalised", digits=3),
        Column(head="scalable rate", metric="flows.1.normalised", digits=3),
        Column(head="CUBIC window", metric="flows.0.normalised_window", digits=3),
        Column(head="scalable window", metric="flows.1.normalised_window", digits=3),
        Column(head="utilisation", metric="utilisation", digits=3),
        Column(head="C P50 ms", metric="probes.0.p50_ms"),
        Column(head="C P99 ms", metric="probes.0.p99_ms"),
        Column(head="L P50 ms", metric="probes.1.p50_ms"),
        Column(head="L P99 ms", metric="probes.1.p99_ms"),
        Column(head="C loss", metric="probes.0.loss", digits=4),
        Column(head="L loss", metric="probes.1.loss", digits=4),
    ),
    charts=(
        *(delays(f"{rate} Mbit/s, {rtt} ms", C | L, side_by_side(name)) for (rate, rtt), name in EQUAL.items()),
        *(delays(f"40 Mbit/s, RTT {a} ms in C, {b} ms in L", C | L, side_by_side(MIX[a, b])) for a, b in MIXED),
        *(
            delays(
                f"{kind} over 12 Mbit/s, {version} parameters",
                series,
                {f"{percent} %": f"{version}-overload-{kind}-{percent}" for percent in OVERLOADS},
            )
            for kind in KINDS
            for version in VERSIONS
            for series in (C, L)
        ),
        *(
            Chart(
                title=f"Equal RTTs: {what} of CUBIC and the scalable flow over a fair one, {version} parameters",
                unit="of fair",
                series={"CUBIC": f"flows.0.{metric}", "scalable": f"flows.1.{metric}"},
                cells={f"{rate}, {rtt} ms": f"{version}-{name}" for (rate, rtt), name in EQUAL.items()},
            )
            for version in VERSIONS
            for what, metric in (("rate", "normalised"), ("window", "normalised_window"))
        ),
    ),
    contrasts=tuple(
        Contrast(
            title=f"C's P99 at 200 % of {kind} over that at 50 %, {version} parameters",
            metric="probes.0.p99_ms",
            cell=f"{version}-overload-{kind}-200",
            reference=f"{version}-overload-{kind}-50",
        )
        for kind in KINDS
        for version in VERSIONS
    ),
    notes="Published: its parameters, under which each ECN-capable packet is in L; CUBIC without ECN with DCTCP. "
    "Default: the kernel's own, CUBIC with ECN with Prague. Overload: one flow of UDP with both, from 5 s on, of "
    "50 to 200 % of the link, not ECN-capable in C or ECT(1) in L; D_SS is of the time in which it runs, and goodput, "
    "since UDP tells no delivery rate. Rates and windows are over equal shares: goodput in the window over capacity / "
    "flows, the mean window over capacity · RTT / flows. P50 and P99 are the probes', with the path; curves are the "
    "queue's alone.",
)
test_cell = matrix_tests(MATRIX)
