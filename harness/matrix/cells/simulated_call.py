# SPDX-License-Identifier: Apache-2.0
"""A cell with a call between browsers, or with a user's program, in simulated time, by the code of real-time labs."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.images.desktop import ensure_desktop
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.kernel_build.sources import OURS, Sources
from sojourn.hardware.machine.scratch import scratch_folder
from sojourn.harness.lab.machine import Machine, memory_slot, start
from sojourn.harness.matrix.cells.call_guest import write_cell
from sojourn.harness.matrix.cells.real_call import browsers
from sojourn.harness.store.loaded import stored_object
from sojourn.scoring.schema.files import CELL
from sojourn.traffic.user_program import UserProgram

#: Wall time for each second of the cell, and for everything before it.
_TIMEOUT_A_SECOND, _TIMEOUT_S = 15.0, 300.0
#: The versions of a machine that decide a cell's results, with Sojourn's own sources.
_BUILDS = "kernel source", "kernel build", "guest"


@functools.cache
def machine(sources: Sources = OURS) -> Machine:
    """Return the machine that such cells run in, built if missing; once per process. Raises BuildError."""
    return Machine(ensure_kernel(sources), ensure_desktop())


def inputs(sources: Sources = OURS) -> str:
    """Return a digest of what determines such a cell's results: kernel, guest, Sojourn's sources. Raises BuildError."""
    return machine(sources).digest


def run_cell(
    cell: Cell, folder: Path, *, seed: int, sources: Sources = OURS, programs: Sequence[UserProgram] = (), **_: Any
) -> None:
    """Run `cell` and write to `folder` the files of `sojourn.harness.matrix.cells.real_time.run_cell`.

    The specification also names the machine's builds, which the lab inside does not know. The same seed gives the same
    bytes. Raises SimulatedError, ServiceError, BuildError.
    """
    if cell.call:
        browsers(cell.call)  # renders the cameras' film, which the machine only reads
    job = scratch_folder("-job")
    try:
        write_cell(job, cell, seed, programs)
        with memory_slot(machine(sources)):
            start(
                machine(sources), job, "exec python3 -m sojourn.harness.matrix.cells.call_guest /job",
                evidence=folder, seed=seed, timeout=_TIMEOUT_S + _TIMEOUT_A_SECOND * cell.seconds,
                programs=programs,
            )  # fmt: skip
    finally:
        shutil.rmtree(job, ignore_errors=True)
    made = stored_object(folder / CELL)
    made["kernel"] |= {name: machine(sources).versions[name] for name in _BUILDS}
    (folder / CELL).write_text(json.dumps(made, indent=1) + "\n")
