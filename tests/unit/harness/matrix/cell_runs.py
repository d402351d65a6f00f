# SPDX-License-Identifier: Apache-2.0
"""Stand-in runs for the tests of the runner: they write the files of a run, in a moment, from cell and seed alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.qdiscs import parse_qdisc
from sojourn.bottleneck.spec import Direction, Hop
from sojourn.harness.engine.local import LocalEngine
from sojourn.harness.matrix.cells.cell_run import CellJob
from sojourn.harness.matrix.cells.simulated import MEMORY_BYTES
from sojourn.traffic.spec import Flow

READY = "ready"


def cell(name: str, seconds: float = 5) -> Cell:
    down = Direction(rate_bps=10_000_000, qdisc=parse_qdisc("fq_codel", "test"))
    return Cell(name=name, flows=(Flow(contender="cubic", rtt_us=20_000),), hops=(Hop(down=down),), seconds=seconds)


def job(name: str, seed: int = 1, **fields: Any) -> CellJob:
    return CellJob(cell(name), seed, **{"window_s": 2, "tail_s": 1, "inputs": "one", "run": run, **fields})


def run(cell: Cell, folder: Path, *, seed: int, **_: Any) -> None:
    """What the name of the cell says: run well, fail, die, be slow (end after two deaths), or block.

    It blocks until the file `go` is there, beside `made`.

    Every run appends a line to `made` two folders up, so that a test can count.
    """
    assert list(folder.iterdir()) == []
    with (folder.parents[1] / "made").open("a") as made:
        made.write(f"{cell.name} {seed}\n")
    word = cell.name.split()[0]
    if word == "fails":
        (folder / "err").write_text("what the guest said last\n")
        raise RuntimeError("the guest fell over")
    if word == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    while word == "slow" and (folder.parents[1] / "made").read_text().count("dies ") < 2:
        time.sleep(0.1)
    if word == "slow":
        time.sleep(0.5)
    if word == "blocks":
        # A process that ends with the thread that started it, as a guest is.
        guest = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", "sleep", "600"])
        (folder.parents[1] / "guest").write_text(f"{guest.pid} {os.getpid()}")
        try:
            while not (folder.parents[1] / "go").exists() and guest.poll() is None:
                time.sleep(0.01)
        finally:
            guest.kill()
            guest.wait()
    rows = [f"{t / 10},0,{round(t * seed * 1e5)},20000,20000,10,0,0,{t},0" for t in range(round(cell.seconds * 10) + 1)]
    head = "t_s,flow,received_bytes,srtt_us,min_rtt_us,cwnd,retrans,lost,delivered,delivered_ce"
    (folder / "flows.csv").write_text("\n".join([head, *rows]) + "\n")


def engine(workers: int = 2) -> LocalEngine:
    """As a matrix makes it."""
    return LocalEngine(MEMORY_BYTES, workers, tries=3)


def main() -> None:
    """Run the cells named on the command line into the folder that is named first, as another runner would."""
    from sojourn.harness.matrix.complete import complete

    folder = Path(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for outcome in complete([job(name) for name in sys.argv[2:]], engine(), folder):
        print(outcome.job.cell.name, outcome.status, flush=True)


if __name__ == "__main__":
    main()
