# SPDX-License-Identifier: Apache-2.0
"""What runs inside the simulated machine: the experiment itself, its news written where the outside reads them.

`python -m sojourn.harness.experiment.guest_main JOB` with the folder that `sojourn.harness.experiment.simulated`
wrote, or `JOB cell` with that of `sojourn.harness.matrix.cells.simulated_call`; the evidence goes to EVIDENCE.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from sojourn.hardware.confine import decoder
from sojourn.harness.experiment.guest_job import ERROR, EVIDENCE, NEWS, VERSIONS, read_cell, read_job
from sojourn.harness.experiment.recording import run_experiment
from sojourn.harness.lab.simulated import SimLab


class _Evidence:
    """Where the run's files go. The room on the disk is watched from outside."""

    path = EVIDENCE

    def __init__(self, versions: Path) -> None:
        self._file, self._versions = versions, dict[str, str]()

    def add_versions(self, versions: Mapping[str, str]) -> None:
        self._versions |= versions
        self._file.write_text(json.dumps(self._versions))

    def check_space(self) -> None:
        pass


class _News:
    """The display of an experiment, told line by line to who reads outside; each with the simulated time."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def say(self, text: str) -> None:
        self._write("say", text)

    def phase(self, index: int) -> None:
        self._write("phase", index)

    def update(self, **known: Any) -> None:
        self._write("update", known)

    def _write(self, kind: str, what: Any) -> None:
        print(json.dumps([time.monotonic(), kind, what]), file=self._out, flush=True)


def experiment(job: Path) -> None:
    """Record a run of the main job."""
    options, service = read_job(job)
    _start_apart(options.seed)
    with (job / NEWS).open("w") as news:
        run_experiment(options, _Evidence(job / VERSIONS), SimLab(options.ip_version or 4), service, _News(news))


def cell(job: Path) -> None:
    """Run a cell of a matrix whose call is between real browsers."""
    from sojourn.harness.matrix.cells.real_time import run_cell
    from sojourn.scoring.validity import SIMULATED

    asked, seed = read_cell(job)
    _start_apart(seed)
    with SimLab(asked.ip_version) as lab:
        run_cell(lab, asked, EVIDENCE, seed=seed, limits=SIMULATED)


def _start_apart(seed: int) -> None:
    """Another seed shall find player, film and clocks at other moments of their rounds."""
    time.sleep(random.Random(f"start {seed}").uniform(0, 1))


def main() -> int:
    """Do the job; what stops it is one line in ERROR and exit code 1."""
    job, *what = map(Path, sys.argv[1:])
    decoder.confined_already()
    try:
        (cell if what else experiment)(job)
    except (RuntimeError, OSError) as failed:
        (job / ERROR).write_text(f"{type(failed).__name__}: {failed}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
