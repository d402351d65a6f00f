# SPDX-License-Identifier: Apache-2.0
"""Simulated seconds per wall second of whole cells (boot, set-up, run), over rate, flows and cells side by side.

    python -m benchmarks.simulated_time [--compare-with=CHECKOUT]

With another checkout of Sojourn, each with its own kernel, guest and endpoints: what a simulated second costs in
processor time there and here, by runs of the same cells in turn, which a load of the host meets alike.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Direction, Hop
from sojourn.harness.matrix.cells.simulated import parts, run_cell
from sojourn.traffic.spec import Flow

HERE = Path(__file__).parents[1]
RTT_US = 20_000
SECONDS = 60
RUNS = 3
PAIRS = 5


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


def processor_s(cell: Cell) -> float:
    """Seconds of the processor, user and system, of one run of `cell` and its machine's processes."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    parts()  # builds outside the times
    begun = spent()
    wall_s(cell)
    return spent() - begun


def in_checkout(checkout: Path, mbit: float, flows: int, seconds: float) -> float:
    """What `processor_s` is with the sources of `checkout`."""
    arguments = ["--cell", f"{mbit:g}", f"{flows}", f"{seconds:g}"]
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "harness" / "api")}
    return float(subprocess.run(command, env=environment, cwd=checkout, stdout=subprocess.PIPE, check=True).stdout)


def compare(there: Path, console: Console) -> None:
    """Print what cells cost in `there` and here."""
    table = Table("cell", "s", "processor s there", "here", "here / there", "simulated s / processor s here")
    for mbit, flows, seconds in ((50, 2, 0.1), (5, 2, SECONDS), (50, 2, SECONDS), (50, 8, SECONDS), (200, 2, SECONDS)):
        pairs = [[in_checkout(side, mbit, flows, seconds) for side in (there, HERE)] for _ in range(PAIRS)]
        old, new = (min(side) for side in zip(*pairs, strict=True))
        shown = (f"{old:.3f}", f"{new:.3f}", f"{new / old:.2f}", f"{seconds / new:.1f}")
        table.add_row(f"{mbit:g} Mbit/s, {flows} flows", f"{seconds:g}", *shown)
    console.print(table)


def speeds(console: Console) -> None:
    """Print simulated s per wall s."""
    parts()  # builds outside the times
    wall_s(cell(50, 2, 1))  # fills the page cache
    fixed = min(wall_s(cell(50, 2, 0.1)) for _ in range(RUNS))
    cores = len(os.sched_getaffinity(0))
    table = Table("cell", "at once", "wall s, best", "worst", "simulated s / wall s", "without boot")
    cases = [(mbit, 2, 1) for mbit in (5, 10, 20, 50, 100, 200, 500)]
    cases += [(50, flows, 1) for flows in (1, 4, 8, 16)] + [(50, 2, at_once) for at_once in range(2, cores + 1)]
    for mbit, flows, at_once in cases:
        arguments = cell(mbit, flows)
        walls = [wall_s(arguments, at_once) for _ in range(RUNS)]
        best, simulated = min(walls), SECONDS * at_once
        shown = (f"{simulated / best:.1f}", f"{simulated / (best - fixed):.1f}")
        table.add_row(arguments.name, str(at_once), f"{best:.2f}", f"{max(walls):.2f}", *shown)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    console.print(table)
    console.print(
        f"boot and set-up: {fixed:.2f} s; all guests: {spent.ru_utime:.0f} s user, {spent.ru_stime:.0f} s system"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--compare-with", type=Path, metavar="CHECKOUT", help="another checkout, to compare with this one"
    )
    parser.add_argument("--cell", nargs=3, type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cell:
        mbit, flows, seconds = args.cell
        print(processor_s(cell(mbit, int(flows), seconds)))
    elif args.compare_with:
        compare(args.compare_with.resolve(), Console())
    else:
        speeds(Console())


if __name__ == "__main__":
    main()
