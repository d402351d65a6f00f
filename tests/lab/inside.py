# SPDX-License-Identifier: Apache-2.0
"""A test's own program in the simulated lab, where no load of the host reaches what it judges."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from sojourn.hardware.images.desktop import ensure_desktop
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.machine.scratch import scratch_folder
from sojourn.harness.lab.machine import Machine, start

_TIMEOUT_S = 600.0


def run_inside(program: Path, folder: Path, extras: Sequence[str] = (), *, untrusted: bool = False) -> None:
    """Run a Python program in a machine of its own; `folder` is its EVIDENCE (sojourn.harness.lab.guest_job).

    `extras` as for ensure_desktop, `untrusted` as for Machine. Raises SimulatedError with its last words when it fails.
    """
    job = scratch_folder("-job")
    try:
        shutil.copy(program, job / "program.py")
        machine = Machine(ensure_kernel(), ensure_desktop(extras), untrusted=untrusted)
        start(machine, job, "exec python3 /job/program.py", evidence=folder, timeout=_TIMEOUT_S)
    finally:
        shutil.rmtree(job, ignore_errors=True)
