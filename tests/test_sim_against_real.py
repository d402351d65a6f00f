# SPDX-License-Identifier: Apache-2.0
"""Simulated against real time: the same six cells in both labs, D_SS side by side.

Two flows of one loss-based control in one queue are not among them: which one gets more is chance in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.matrix import Column, Matrix

CELLS = (
    (50, "fq_codel flows 1", ("prague", "cubic")),
    (50, "dualpi2", ("prague", "cubic")),
    (50, "dualpi2", ("prague", "prague")),
    (50, "fq_codel", ("cubic", "cubic")),
    (20, "fq_codel flows 1", ("prague", "cubic")),
    (20, "dualpi2", ("prague", "cubic")),
)
WITHIN = 0.05
FLOOR_MBPS = 0.5
"""By which a small share may differ: 5 % of the 2.6 Mbit/s beside Prague would be less than its seeds vary."""


def cell(mbps: float, qdisc: str, contenders: tuple[str, str]) -> Cell:
    return Cell(
        name=f"{'-vs-'.join(contenders)}-{qdisc}-{mbps:g}mbit-20ms",
        flows=dumbbell.flows(contenders, 20),
        hops=(dumbbell.bottleneck(mbps, qdisc),),
        seconds=40,
    )


MATRIX = Matrix(
    name="labs",
    title="Simulated against real time",
    cells=tuple(cell(*row) for row in CELLS),
    window_s=30,
    columns=(
        Column(head="first Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="second Mbit/s", metric="flows.1.d_ss_mbps"),
        Column(head="first RTT ms", metric="flows.0.rtt_mean_ms"),
        Column(head="second RTT ms", metric="flows.1.rtt_mean_ms"),
    ),
)


@pytest.mark.experiment
@pytest.mark.parametrize("cell", MATRIX.cells, ids=[cell.name for cell in MATRIX.cells])
def test_labs_agree(cell: Cell, scores_in: Callable[..., list[dict[str, Any]]], notify: Callable[[str], None]) -> None:
    """D_SS of each flow and of both together, means of the runs, differ by 5 % at most, or by 0.5 Mbit/s."""
    shares = {
        lab: [[flow["d_ss_mbps"] for flow in run["flows"]] for run in scores_in(MATRIX, cell, lab)]
        for lab in ("sim", "virtual")
    }
    means = {lab: [fmean(flow) for flow in zip(*runs, strict=True)] for lab, runs in shares.items()}
    told = " | ".join(" : ".join(f"{it:.2f}" for it in flows) for flows in means.values())
    ratios = [real / simulated for simulated, real in zip(*means.values(), strict=True)]
    notify(f"| {cell.name} | {told} | {' : '.join(f'{it:.3f}' for it in ratios)} |")
    sim, real = means["sim"], means["virtual"]
    for ours, theirs in zip(real, sim, strict=True):
        assert ours == pytest.approx(theirs, rel=WITHIN, abs=FLOOR_MBPS)
    assert sum(real) == pytest.approx(sum(sim), rel=WITHIN)
