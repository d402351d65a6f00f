# SPDX-License-Identifier: Apache-2.0
"""Simulated seconds per wall second of whole cells (boot, set-up, run), over rate, flows and cells side by side."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bottleneck.spec import Direction
from harness.matrix.cell import Cell, Flow, Hop
from harness.matrix.simulated import parts, run_cell

RTT_US = 20_000
SECONDS = 60
RUNS = 3


def cell(mbit: float, flows: int, seconds: float = SECONDS) -> Cell:
    """Prague and CUBIC in turn through one queue of fq_codel; times in s."""
    names = [("prague", "cubic")[n % 2] for n in range(flows)]
    return Cell(
        name=f"{mbit:g} Mbit/s, {flows} flows",
        flows=tuple(Flow(contender=name, rtt_us=RTT_US) for name in names),
        hops=(Hop(down=Direction(rate_bps=round(mbit * 1e6), qdisc="fq_codel flows 1")),),
        seconds=seconds,
    )


def wall_s(cell: Cell, side_by_side: int = 1) -> float:
    """Wall seconds of as many runs of `cell` at once, one a core."""

    def one(number: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run_cell(cell, Path(folder), seed=number + 1)

    begun = time.monotonic()
    with ThreadPoolExecutor() as pool:
        list(pool.map(one, range(side_by_side)))
    return time.monotonic() - begun


def main() -> None:
    parts()  # builds outside the times
    wall_s(cell(50, 2, 1))  # fills the page cache
    fixed = min(wall_s(cell(50, 2, 0.1)) for _ in range(RUNS))
    cores = len(os.sched_getaffinity(0))
    table = Table("cell", "at once", "wall s, best", "worst", "simulated s / wall s", "without boot")
    cases = [(mbit, 2, 1) for mbit in (5, 10, 20, 50, 100, 200, 500)]
    cases += [(50, flows, 1) for flows in (1, 4, 8, 16)] + [(50, 2, at_once) for at_once in range(2, cores + 1)]
    for mbit, flows, at_once in cases:
        asked = cell(mbit, flows)
        walls = [wall_s(asked, at_once) for _ in range(RUNS)]
        best, simulated = min(walls), SECONDS * at_once
        speeds = (f"{simulated / best:.1f}", f"{simulated / (best - fixed):.1f}")
        table.add_row(asked.name, str(at_once), f"{best:.2f}", f"{max(walls):.2f}", *speeds)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    console = Console()
    console.print(table)
    console.print(
        f"boot and set-up: {fixed:.2f} s; all guests: {spent.ru_utime:.0f} s user, {spent.ru_stime:.0f} s system"
    )


if __name__ == "__main__":
    main()
