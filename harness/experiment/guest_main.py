# SPDX-License-Identifier: Apache-2.0
"""The program in the simulated machine: the experiment, with progress written for the outside.

`python -m sojourn.harness.experiment.guest_main JOB` with the folder that `sojourn.harness.experiment.simulated`
wrote; the evidence goes to EVIDENCE.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from sojourn.hardware.kernel_check import require_sound_kernel
from sojourn.harness.experiment.recording import run_experiment
from sojourn.harness.experiment.run_lab import with_parts
from sojourn.harness.lab.guest_job import EVIDENCE, NEWS, VERSIONS, begin, read_job, work
from sojourn.harness.lab.simulated import SimLab


class _GuestRun:
    """The destination of the run's files. Disk space is monitored from outside."""

    path = EVIDENCE

    def __init__(self, versions: Path) -> None:
        self._file, self._versions = versions, dict[str, str]()

    def add_versions(self, versions: Mapping[str, str]) -> None:
        self._versions |= versions
        self._file.write_text(json.dumps(self._versions))

    def check_space(self) -> None:
        pass


class _News:
    """The display of an experiment, written line by line for the outside, each with the simulated time."""

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
    begin(options.seed)
    lab = with_parts(SimLab(options.ip_version or 4, options.rig.bunching_us), options, EVIDENCE)
    with (job / NEWS).open("w") as news:
        run_experiment(options, _GuestRun(job / VERSIONS), lab, service, _News(news))
    require_sound_kernel(EVIDENCE)


if __name__ == "__main__":
    sys.exit(work(Path(sys.argv[1]), experiment))
