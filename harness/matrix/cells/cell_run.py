# SPDX-License-Identifier: Apache-2.0
"""One run of one cell: simulate, score, describe; a worker's job, and whether it was done before."""

from __future__ import annotations

import functools
import json
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.rig import EXACT, Rig
from sojourn.hardware.kernel_build.sources import OURS, Sources
from sojourn.hardware.machine.cache import digest
from sojourn.hardware.machine.files import replace_file
from sojourn.harness.engine import provenance
from sojourn.harness.engine.job import Channel
from sojourn.harness.engine.provenance import CELL_SCORING, SourceFiles, source_files
from sojourn.harness.store import runs
from sojourn.harness.store.loaded import LoadError, check_seal, stored_object
from sojourn.harness.store.manifest import (
    REPORT,
    Cached,
    GitState,
    Manifest,
    StoreError,
    hash_files,
    read_manifest,
    reseal,
    write_manifest,
)
from sojourn.scoring.schema.files import CELL, RAW
from sojourn.scoring.schema.scores import SCORES
from sojourn.scoring.validity import Limits
from sojourn.traffic import user_program
from sojourn.traffic.program import FOREIGN
from sojourn.traffic.user_program import UserProgram

if TYPE_CHECKING:
    from sojourn.harness.matrix.cells.simulated import Endpoints

#: What runs a cell in simulated time; in real time.
_SIMULATED = ("sojourn.harness.matrix.cells.simulated", "sojourn.bottleneck.rig")
_REAL_TIME = (
    "sojourn.bottleneck.rig",
    "sojourn.harness.matrix.cells.real_time",
    "sojourn.harness.lab.virtual",
    "sojourn.harness.lab.physical",
)


@dataclass(frozen=True)
class CellJob:
    """One run to execute. `inputs` is a digest of everything else that its outcome depends on."""

    cell: Cell
    seed: int
    window_s: float
    tail_s: float
    inputs: str
    rig: Rig = EXACT
    """The laboratory that its seed stands for."""
    endpoints: Endpoints = "bulk"
    pcap: bool = False
    """Whether to capture at both ends; the run is the same with and without."""
    sources: Sources = OURS
    """The sources of its kernel and tc. What is built from them is part of `inputs`."""
    run: Callable[..., None] | None = None
    """Runs it instead of `sojourn.harness.matrix.cells.simulated.run_cell`; other processes import it by name."""
    programs: tuple[UserProgram, ...] = ()
    """The user's programs among its contenders, and others."""
    matrix: str = ""
    """The name of its matrix, for the manifest."""
    command_line: tuple[str, ...] = field(default_factory=lambda: tuple(sys.argv))
    scoring_sources: SourceFiles = field(default_factory=lambda: source_files(*CELL_SCORING))
    """Source files that score it, determined where the job is created; a worker only reads its own copies."""

    def __call__(self, folder: Path, channel: Channel) -> None:
        """Make the run in `folder`; raises as `perform`."""
        perform(self, folder)

    @property
    def work(self) -> float:
        """Approximate relative duration: the traffic across the bottleneck in Mbit, plus set-up."""
        from sojourn.scoring.transport.geometry import rate_periods

        periods = [*rate_periods(self.cell), (self.cell.seconds, None)]
        return sum((b - a) * (rate or 100) for (a, rate), (b, _) in pairwise(periods)) + 200


@functools.cache
def real_time_inputs_digest(lab_file: Path | None, limits: Limits, sources: Sources) -> str:
    """Return a digest of what determines a real-time run: the nodes' kernel and guest or a physical lab's file, the
    gates.

    Raises BuildError when they cannot be built, OSError when the file cannot be read.
    """
    from sojourn.hardware.images.guest import ensure_guest
    from sojourn.hardware.kernel_build.build import ensure_kernel

    lab = lab_file.read_bytes() if lab_file else f"{ensure_kernel(sources).digest} {ensure_guest().digest}".encode()
    return digest([("lab", lab), ("limits", limits.model_dump_json().encode()), *source_files(*_REAL_TIME).contents()])


@dataclass(frozen=True)
class SimulatedInputs:
    """Digest of what determines a run where it is called: kernel, guest, endpoints and sources; can be pickled.

    Builds what is missing, once in a process. Raises BuildError when it cannot be built.
    """

    endpoints: Endpoints = "bulk"
    sources: Sources = OURS
    files: SourceFiles = field(default_factory=lambda: source_files(*_SIMULATED))

    def __call__(self) -> str:
        return _digest_here(self)


@functools.cache
def _digest_here(named: SimulatedInputs) -> str:
    from sojourn.harness.matrix.cells.simulated import versions

    parts = {**versions(named.sources), "endpoints": named.endpoints}.items()
    return digest([(name, text.encode()) for name, text in parts] + list(named.files.contents()))


def scoring_digest(job: CellJob) -> str:
    """Return a digest of the sources and parameters that score a run's raw files."""
    return provenance.scoring_digest(job.window_s, job.tail_s, job.scoring_sources)


def perform(job: CellJob, folder: Path) -> None:
    """Empty `folder`, run the cell in it, score it, and write its manifest.

    Raises what the run raises (sojourn.hardware.simulation.SimulationError).
    """
    from sojourn.harness.matrix.cells.simulated import run_cell

    run: Callable[..., None] = job.run or run_cell
    empty(folder)
    created = time.time()
    run(
        job.rig.applied(job.cell), folder, seed=job.seed, endpoints=job.endpoints,
        pcap=job.pcap, sources=job.sources, **({"programs": _own(job)} if job.programs else {}),
    )  # fmt: skip
    made = _write_specification(job, folder, job.rig)
    write_scores(job, folder)
    manifest = Manifest(
        run=runs.run_name(created, job.matrix or "cell", f"{job.cell.name} seed {job.seed}"),
        test=job.matrix or "cell",
        cell=job.cell.name,
        created=created,
        finished=time.time(),
        status="valid",
        command_line=list(job.command_line),
        seed=job.seed,
        drawn=job.rig.words(),
        git=_commit(),
        versions={name: str(version) for name, version in made.get("kernel", {}).items()}
        | user_program.versions(_own(job)),
        files=hash_files(folder),
        cache=Cached(inputs=job.inputs, scoring=scoring_digest(job), programs=_programs(job)),
    )
    manifest.required = [name for name in RAW if name in manifest.files]
    write_manifest(folder, manifest)


def _write_specification(job: CellJob, folder: Path, rig: Rig) -> dict[str, Any]:
    """Complete what the lab wrote of the run's specification, and return it."""
    made = {"seed": job.seed, **stored_object(folder / CELL), "cell": job.cell.model_dump(mode="json")}
    made |= {"rig": rig.model_dump(mode="json"), "window_s": float(job.window_s), "tail_s": float(job.tail_s)}
    if own := _own(job):
        made["user_programs"] = [it.model_dump(mode="json") for it in own]
    replace_file(folder / CELL, (json.dumps(made, indent=1) + "\n").encode())
    return made


def empty(folder: Path) -> None:
    """Remove everything in a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def write_scores(job: CellJob, folder: Path) -> None:
    """Write `scores.json` from the raw files of a run."""
    replace_file(folder / SCORES, (json.dumps(scored(job, folder), indent=1) + "\n").encode())


def scored(job: CellJob, folder: Path) -> dict[str, Any]:
    """Return the scores of a run's raw files as this version computes them."""
    from sojourn.scoring.score_cell import score_cell

    cell = rig_of(folder).applied(job.cell)
    return score_cell(cell, folder, window_s=job.window_s, tail_s=job.tail_s).document()


def rig_of(folder: Path) -> Rig:
    """Return the laboratory in which the run of a cell was made: the exact one before cells had others."""
    return Rig.model_validate(stored_object(folder / CELL).get("rig", {}))


def rescore(job: CellJob, folder: Path) -> None:
    """Recompute the scores of a finished run with unchanged raw files, and remove its page, which has older ones."""
    write_scores(job, folder)
    _write_specification(job, folder, rig_of(folder))
    (folder / REPORT).unlink(missing_ok=True)
    reseal(folder, SCORES, CELL, REPORT, scoring=scoring_digest(job))


def cache_state(job: CellJob, folder: Path) -> Literal["stale", "unscored", "done"]:
    """Return what has to be done for a job whose finished run would be `folder`.

    Stale: there is none of the job's cell and seed, it has other inputs or programs, or lacks requested captures;
    unscored: its scores differ from those written.
    """
    from sojourn.harness.matrix.cells.simulated import CAPTURES

    manifest = recorded(folder)
    if manifest is None or (manifest.cell, manifest.seed) != (job.cell.name, job.seed):
        return "stale"
    cached = manifest.cache
    if cached is None or (cached.inputs, cached.programs) != (job.inputs, _programs(job)):
        return "stale"
    if job.pcap and not all((folder / name).exists() for name in CAPTURES):
        return "stale"
    return "done" if _is_scored(job, folder, manifest) else "unscored"


def recorded(folder: Path) -> Manifest | None:
    """Return the manifest of a finished run; None without one, or if raw files differ from it."""
    try:
        manifest = read_manifest(folder)
        for name in RAW:
            check_seal(folder, name, manifest)
    except (StoreError, OSError):
        return None
    return manifest


def _is_scored(job: CellJob, folder: Path, manifest: Manifest) -> bool:
    """Return whether a run holds the scores written by this version with the job's parameters."""
    try:
        check_seal(folder, SCORES, manifest)
    except (LoadError, OSError):
        return False
    return SCORES in manifest.files and manifest.cache is not None and manifest.cache.scoring == scoring_digest(job)


def _own(job: CellJob) -> tuple[UserProgram, ...]:
    """Return the user's programs among the flows of a job."""
    return tuple(it for it in job.programs if any(flow.contender == it.name for flow in job.cell.flows))


def _programs(job: CellJob) -> dict[str, str]:
    """Digests of the user's and other packages' programs among the flows, by name; Sojourn's are in the inputs."""
    names = sorted({flow.contender for flow in job.cell.flows} & FOREIGN.keys())
    return {name: FOREIGN[name].digest() for name in names} | {it.name: it.digest for it in _own(job)}


@functools.cache
def _commit() -> GitState | None:
    """Return the state of this checkout; for information: `inputs` identifies the run."""
    return runs.git_state()
