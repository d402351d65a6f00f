# SPDX-License-Identifier: Apache-2.0
"""What runs inside the machine of a cell with a call: `python -m sojourn.harness.matrix.cells.call_guest JOB`.

JOB is the folder that `sojourn.harness.matrix.cells.simulated_call` wrote; the evidence goes to EVIDENCE.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sojourn.bottleneck.cell import Cell
from sojourn.harness.lab.guest_job import EVIDENCE, read, start_apart, work, write
from sojourn.harness.lab.simulated import SimLab
from sojourn.harness.matrix.cells.real_time import run_cell
from sojourn.scoring.validity import SIMULATED


def write_cell(job: Path, cell: Cell, seed: int) -> None:
    """Write the job of a matrix's cell."""
    write(job, {"cell": cell.model_dump(mode="json"), "seed": seed}, {})


def read_cell(job: Path) -> tuple[Cell, int]:
    """Return the cell to run, and its seed."""
    known = read(job)
    return Cell.model_validate_json(json.dumps(known["cell"])), known["seed"]


def cell(job: Path) -> None:
    """Run a cell of a matrix whose call is between real browsers."""
    cell, seed = read_cell(job)
    start_apart(seed)
    with SimLab(cell.ip_version, cell.bunching_us) as lab:
        run_cell(lab, cell, EVIDENCE, seed=seed, limits=SIMULATED)


if __name__ == "__main__":
    sys.exit(work(Path(sys.argv[1]), cell))
