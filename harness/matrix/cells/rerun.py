# SPDX-License-Identifier: Apache-2.0
"""A run of a matrix's cell repeated from its specification, and whether the bytes are the same."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.kernel_build.sources import Sources
from sojourn.hardware.machine.messages import first_wrong
from sojourn.hardware.machine.signals import ended_by_signals
from sojourn.harness.experiment.rerun import IN_REAL_TIME, FileComparison, RerunError, commits, compared, repeatable
from sojourn.harness.matrix.cells.cell_run import CellJob, SimulatedInputs, perform, rig_of
from sojourn.harness.store.claim import claim
from sojourn.harness.store.loaded import cell_of
from sojourn.harness.store.manifest import read_manifest
from sojourn.harness.store.runs import run_name
from sojourn.traffic.user_program import UserProgram, require_cached

if TYPE_CHECKING:
    from sojourn.harness.matrix.cells.simulated import Endpoints


def rerun_cell(run: Path, results: Path | None, yours: Mapping[str, Path]) -> tuple[Path, FileComparison, list[str]]:
    """Repeat a run of a cell on this machine in the folder `results` (default: next to it).

    `yours` may have the paths of the options `kernel-source` and `iproute2-source`. Returns where, how the files
    compare, and what of the machine is not the same, each in words. Raises RerunError, BundleError, BuildError,
    SimulationError, UserProgramError.
    """
    from sojourn.harness.matrix.cells import simulated_call

    manifest, made = repeatable(run), cell_of(run)
    if (lab := str(made.get("lab", "sim"))) != "sim":
        raise RerunError(f"{run}: {IN_REAL_TIME.format(lab=lab)}", code="real-time")
    if without := [name for name in yours if not name.endswith("-source")]:
        raise RerunError(f"{run}: was recorded without --{without[0]}; omit it", code="no-effect")
    if not {"window_s", "tail_s"} <= made.keys() or manifest.seed is None:
        raise RerunError(
            f"{run}: was recorded by an earlier version; `sojourn matrix` repeats it", code="other-version"
        )
    sources = Sources(yours.get("kernel-source"), yours.get("iproute2-source"))
    endpoints: Endpoints = "iperf3" if made.get("endpoints") == "iperf3" else "bulk"
    browsers = "lab" in made  # recorded by the code of the labs in real time
    inputs = simulated_call.inputs(sources) if browsers else SimulatedInputs(endpoints, sources)()
    try:
        cell = Cell.model_validate(made["cell"])
        programs = tuple(map(UserProgram.model_validate, made.get("user_programs", ())))
    except ValidationError as wrong:
        raise RerunError(
            f"{run}: cell.json: {first_wrong(wrong)}; rerun it with the version that recorded it", code="other-version"
        ) from wrong
    if manifest.bundle and any(hop.slots and hop.slots.file for hop in cell.hops):
        raise RerunError(
            f"{run}: its delivery trace is a file of the machine that recorded it; run the matrix with --trace",
            code="unsupported",
        )
    require_cached(programs)
    job = CellJob(
        cell, manifest.seed, float(made["window_s"]), float(made["tail_s"]), inputs, rig_of(run), endpoints,
        pcap="client.pcapng.zst" in manifest.files, sources=sources, programs=programs, matrix=manifest.test,
        run=simulated_call.run_cell if browsers else None, command_line=("sojourn", "rerun", manifest.run),
    )  # fmt: skip
    name = run_name(time.time(), manifest.test, f"{cell.name} seed {manifest.seed}")
    if not (claimed := claim((results or run.parent).resolve() / name)):
        raise RerunError(f"{run}: another process repeats it now", code="in-use")
    try:
        with ended_by_signals():
            perform(job, claimed.folder)
    except BaseException:
        claimed.release()
        raise
    again = claimed.commit()
    fresh = read_manifest(again)
    gone = manifest.bundle.left_out if manifest.bundle else ()
    versions = {name: (manifest.versions.get(name), text) for name, text in fresh.versions.items()}
    lines = [f"{name}: {before}, now {now}" for name, (before, now) in versions.items() if before != now]
    return again, compared(manifest.files, fresh.files, gone), [*lines, *commits(manifest, fresh)]
