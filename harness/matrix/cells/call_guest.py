# SPDX-License-Identifier: Apache-2.0
"""What runs inside the machine of a cell with a call or a user's program.

`python -m sojourn.harness.matrix.cells.call_guest JOB`: JOB is the folder that
`sojourn.harness.matrix.cells.simulated_call` wrote; the evidence goes to EVIDENCE.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.kernel_check import require_sound_kernel
from sojourn.harness.lab.contract import WithPrograms
from sojourn.harness.lab.guest_job import EVIDENCE, begin, read, work, write
from sojourn.harness.lab.simulated import SimLab
from sojourn.harness.matrix.cells.real_time import run_cell
from sojourn.scoring.validity import SIMULATED
from sojourn.traffic.user_program import UserProgram


def write_cell(job: Path, cell: Cell, seed: int, programs: Sequence[UserProgram] = ()) -> None:
    """Write the job of a matrix's cell; `programs` are the user's among its contenders."""
    known = {"cell": cell.model_dump(mode="json"), "seed": seed}
    own = {"programs": [it.model_dump(mode="json") for it in programs]} if programs else {}
    write(job, known | own, {})


def read_cell(job: Path) -> tuple[Cell, int, list[UserProgram]]:
    """Return the cell to run, its seed and the user's programs."""
    known = read(job)
    programs = [UserProgram.model_validate(it) for it in known.get("programs", ())]
    return Cell.model_validate_json(json.dumps(known["cell"])), known["seed"], programs


def cell(job: Path) -> None:
    """Run a cell of a matrix."""
    cell, seed, programs = read_cell(job)
    begin(seed)
    with WithPrograms(SimLab(cell.ip_version, cell.bunching_us), programs) as lab:
        run_cell(lab, cell, EVIDENCE, seed=seed, limits=SIMULATED)
    require_sound_kernel(EVIDENCE)


if __name__ == "__main__":
    sys.exit(work(Path(sys.argv[1]), cell))
