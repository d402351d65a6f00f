# SPDX-License-Identifier: Apache-2.0
"""One run of one cell: simulate, score, describe; a worker's job, and whether it was done before."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.machine.cache import digest
from sojourn.hardware.machine.files import replace_file
from sojourn.harness.engine.job import Channel
from sojourn.harness.engine.provenance import SourceFiles, source_files
from sojourn.harness.store import runs
from sojourn.harness.store.manifest import hash_file
from sojourn.scoring.schema.scores import SCORES
from sojourn.scoring.validity import Limits
from sojourn.traffic.program import FOREIGN

Endpoints = Literal["bulk", "iperf3"]
RAW = ("flows.csv", "probes.csv", "short.csv", "queues.jsonl", "talks.csv", "packets.csv", "replay.csv")
"""Files that a seed determines bit for bit."""
RUN = "run.json"
#: What runs a cell in simulated time; in real time; what scores it.
_SIMULATED = ("sojourn.harness.matrix.cells.simulated",)
_REAL_TIME = ("sojourn.harness.matrix.cells.real_time", "sojourn.harness.lab.virtual", "sojourn.harness.lab.physical")
_SCORING = ("sojourn.scoring.transport.cell_scores",)


@dataclass(frozen=True)
class CellJob:
    """One run to execute. `inputs` is a digest of everything else that its outcome depends on."""

    cell: Cell
    seed: int
    window_s: float
    tail_s: float
    inputs: str
    endpoints: Endpoints = "bulk"
    timeout_s: float = 300
    pcap: bool = False
    """Whether to capture at both ends; the run is the same with and without."""
    kernel_source: Path | None = None
    """The tarball of its kernel; None: Debian's newest. The kernel built from it is part of `inputs`."""
    run: Callable[..., None] | None = None
    """Runs it instead of `sojourn.harness.matrix.cells.simulated.run_cell`; other processes import it by name."""
    scoring_sources: SourceFiles = field(default_factory=lambda: source_files(*_SCORING))
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
def real_time_inputs_digest(lab_file: Path | None, limits: Limits, kernel_source: Path | None = None) -> str:
    """Return a digest of what determines a real-time run: the nodes' kernel and guest or a physical lab's file, the
    gates.

    Raises BuildError when they cannot be built, OSError when the file cannot be read.
    """
    from sojourn.hardware.images.guest import ensure_guest
    from sojourn.hardware.kernel_build.build import ensure_kernel

    lab = (
        lab_file.read_bytes() if lab_file else f"{ensure_kernel(kernel_source).digest} {ensure_guest().digest}".encode()
    )
    return digest([("lab", lab), ("limits", limits.model_dump_json().encode()), *source_files(*_REAL_TIME).contents()])


@dataclass(frozen=True)
class SimulatedInputs:
    """Digest of what determines a run where it is called: kernel, guest, endpoints and sources; can be pickled.

    Builds what is missing, once in a process. Raises BuildError when it cannot be built.
    """

    endpoints: Endpoints = "bulk"
    kernel_source: Path | None = None
    sources: SourceFiles = field(default_factory=lambda: source_files(*_SIMULATED))

    def __call__(self) -> str:
        return _digest_here(self)


@functools.cache
def _digest_here(named: SimulatedInputs) -> str:
    from sojourn.harness.matrix.cells.simulated import versions

    parts = {**versions(named.kernel_source), "endpoints": named.endpoints}.items()
    return digest([(name, text.encode()) for name, text in parts] + list(named.sources.contents()))


def scoring_digest(job: CellJob) -> str:
    """Return a digest of the sources and parameters that score a run's raw files."""
    return digest([*job.scoring_sources.contents(), ("window", f"{job.window_s} {job.tail_s}".encode())])


def perform(job: CellJob, folder: Path) -> None:
    """Empty `folder`, run the cell in it, score it and describe the run in `run.json`.

    Raises what the run raises (sojourn.hardware.simulation.SimulationError).
    """
    from sojourn.harness.matrix.cells.simulated import run_cell

    run = job.run or run_cell
    empty(folder)
    started = time.monotonic()
    run(
        job.cell, folder, seed=job.seed, endpoints=job.endpoints, timeout_s=job.timeout_s, pcap=job.pcap,
        kernel_source=job.kernel_source,
    )  # fmt: skip
    ran = time.monotonic()
    write_scores(job, folder)
    about: dict[str, Any] = {
        "cell": job.cell.name,
        "seed": job.seed,
        "inputs": job.inputs,
        "git": _commit(),
        "programs": _programs(job.cell),
        "scoring": scoring_digest(job),
        "result": result_digest(folder),
        "scores": hash_file(folder / SCORES).sha256,
        "seconds": job.cell.seconds,
        "wall_s": round(ran - started, 3),
        "scoring_s": round(time.monotonic() - ran, 3),
    }
    _write(folder / RUN, about)


def empty(folder: Path) -> None:
    """Remove everything in a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def write_scores(job: CellJob, folder: Path) -> None:
    """Write `scores.json` from the raw files of a run."""
    _write(folder / SCORES, scored(job, folder))


def scored(job: CellJob, folder: Path) -> dict[str, Any]:
    """Return the scores of a run's raw files as this version computes them."""
    from sojourn.scoring.transport.cell_scores import score
    from sojourn.scoring.transport.frames import CellFrames

    return score(job.cell, CellFrames.read(folder), window_s=job.window_s, tail_s=job.tail_s).document()


def rescore(job: CellJob, folder: Path) -> None:
    """Recompute the scores of a finished run whose raw files are unchanged."""
    write_scores(job, folder)
    renewed = {"scoring": scoring_digest(job), "scores": hash_file(folder / SCORES).sha256}
    _write(folder / RUN, json.loads((folder / RUN).read_text()) | renewed)


def cache_state(job: CellJob, folder: Path) -> Literal["stale", "unscored", "done"]:
    """Return what has to be done for a job whose finished run would be `folder`.

    Stale: there is none, it has other inputs or programs, or lacks requested captures;
    unscored: its scores differ from those written.
    """
    from sojourn.harness.matrix.cells.simulated import CAPTURES

    about = recorded(folder)
    if about is None or about.get("inputs") != job.inputs or about.get("programs", {}) != _programs(job.cell):
        return "stale"
    if job.pcap and not all((folder / name).exists() for name in CAPTURES):
        return "stale"
    try:
        written = hash_file(folder / SCORES).sha256
    except OSError:
        return "unscored"
    return "done" if (about.get("scoring"), about.get("scores")) == (scoring_digest(job), written) else "unscored"


def current_scores(job: CellJob, folder: Path) -> dict[str, Any]:
    """Return the scores of a finished run of any version, as this version computes them; the folder stays unchanged."""
    about = recorded(folder) or {}
    written = folder / SCORES
    if (about.get("scoring"), about.get("scores")) == (scoring_digest(job), hash_file(written).sha256):
        scores: dict[str, Any] = json.loads(written.read_bytes())
        return scores
    # As they would be read from a file.
    return json.loads(json.dumps(scored(job, folder)))  # type: ignore[no-any-return]


def recorded(folder: Path) -> dict[str, Any] | None:
    """Return the content of a finished run's `run.json`; None without one, or if raw files differ from its record."""
    try:
        about: dict[str, Any] = json.loads((folder / RUN).read_text())
        return about if about.get("result") == result_digest(folder) else None
    except (OSError, ValueError, AttributeError):
        return None


def is_of(job: CellJob, folder: Path) -> bool:
    """Return whether a finished run has the job's cell and seed."""
    about = recorded(folder)
    return about is not None and (about.get("cell"), about.get("seed")) == (job.cell.name, job.seed)


def _programs(cell: Cell) -> dict[str, str]:
    """Digests of programs of other packages among the cell's flows, by name. Sojourn's are part of the inputs."""
    names = sorted({flow.contender for flow in cell.flows} & FOREIGN.keys())
    return {name: FOREIGN[name].digest() for name in names}


@functools.cache
def _commit() -> dict[str, Any] | None:
    """Return this checkout's commit, and whether it is changed; for information: `inputs` identifies the run."""
    return state.model_dump() if (state := runs.git_state()) else None


def result_digest(folder: Path) -> str:
    """Return a hash of a run's raw files: equal runs have equal hashes."""
    total = hashlib.sha256()
    for name in RAW:
        if (path := folder / name).exists():
            total.update(f"{name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return total.hexdigest()


def _write(path: Path, value: Any) -> None:
    replace_file(path, (json.dumps(value, indent=1) + "\n").encode())
