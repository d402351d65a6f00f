# SPDX-License-Identifier: Apache-2.0
"""A node in simulated time: its clock jumps to the next timer, whatever the load of the host."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from hardware.node import node_command

if TYPE_CHECKING:
    from hardware.build import Kernel
    from hardware.guest import Guest

START_NS = 1_000_000_000
"""Simulated time at boot, nanoseconds; fixed, so that a run repeats bit for bit."""


class SimulationError(RuntimeError):
    """The simulated node did not finish its job; the message ends with what the job said."""


def run(
    kernel: Kernel,
    guest: Guest,
    folder: Path,
    *,
    core: int | None = None,
    seed: int = 1,
    memory: str = "256M",
    timeout: float = 300.0,
) -> None:
    """Run the executable `folder/run` inside a node whose time is simulated.

    The job works in the folder itself, so what it writes there stays; its output is `out` and `err`. Hosts and
    routers are network namespaces that it makes. The same seed gives the same bytes.

    Args:
        core: the processor to stay on, since every system call of the guest hands over between two processes of the
            host, which is many times slower across processors. Default: the first that we may use.
        timeout: seconds of real time.

    Raises:
        SimulationError: the node does not finish in time, or the job's exit code is not 0.
    """
    command = node_command(
        kernel,
        guest,
        name="sim",
        interfaces=(),
        memory=memory,
        # The folder goes by the working directory: its name would differ between runs and with it the memory layout.
        extra=("time-travel=inf-cpu", f"time-travel-start={START_NS}", "sj.job=/proc/self/cwd/."),
    )
    pinned = ["taskset", "-c", str(min(os.sched_getaffinity(0)) if core is None else core), *command]
    status, errors = folder / "status", folder / "err"
    status.unlink(missing_ok=True)
    try:
        node = subprocess.run(
            pinned, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            cwd=folder, timeout=timeout, env={**os.environ, "SOJOURN_SEED": str(seed)}, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        raise SimulationError(f"{folder}: not finished within {timeout:g} s") from late
    if not status.exists():
        raise SimulationError(f"{folder}: the node ended early: {node.stdout.strip()[-300:]}")
    if (code := status.read_text().strip()) != "0":
        raise SimulationError(f"{folder}: exit code {code}: {errors.read_text(errors='replace').strip()[-300:]}")
