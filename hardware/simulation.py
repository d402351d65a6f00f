# SPDX-License-Identifier: Apache-2.0
"""A node in simulated time: its clock jumps to the next timer, whatever the load of the host."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from hardware.node import node_command
from harness.place import ENVIRONMENT

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
        forward=True,
        # The folder goes by the working directory: its name would differ between runs and with it the memory layout.
        extra=("time-travel=inf-cpu", f"time-travel-start={START_NS}", "sj.job=/proc/self/cwd/."),
    )
    pinned = ["taskset", "-c", str(min(os.sched_getaffinity(0)) if core is None else core), *command]
    status, errors = folder / "status", folder / "err"
    status.unlink(missing_ok=True)
    # A session of its own, so that its helper processes end with it; and none outlives the thread that waits here.
    with subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *pinned], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", cwd=folder, start_new_session=True,
        # Nothing else of the environment: its size alone would move the guest's memory.
        env={"PATH": ENVIRONMENT["PATH"], "HOME": "/", "SOJOURN_SEED": str(seed)},
    ) as node:  # fmt: skip
        try:
            console, _ = node.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as late:
            _kill(node)
            console, _ = node.communicate()
            told = "; ".join(part for part in (_tail(errors), console.strip()[-300:]) if part)
            raise SimulationError(f"{folder}: not finished within {timeout:g} s: {told or 'it said nothing'}") from late
        finally:
            _kill(node)
    if not status.exists():
        raise SimulationError(f"{folder}: the node ended early: {console.strip()[-300:]}")
    if (code := status.read_text().strip()) != "0":
        raise SimulationError(f"{folder}: exit code {code}: {_tail(errors)}")


def _tail(file: Path) -> str:
    return file.read_text(errors="replace").strip()[-300:] if file.exists() else ""


def _kill(node: subprocess.Popen[str]) -> None:
    """End the node and the processes that run its user space; those of an ended node are gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(node.pid, signal.SIGKILL)
