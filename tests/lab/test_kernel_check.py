# SPDX-License-Identifier: Apache-2.0
"""A kernel that warned of itself: its machine's job fails, or the run is invalid; and its log is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.bottleneck.spec import Bottleneck
from sojourn.hardware import simulation
from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.kernel_check import CHECK, LOG
from sojourn.hardware.simulation import SimulationError
from sojourn.harness.lab.under_test import ManagedRouter
from sojourn.scoring.gates.router import on_router
from tests.lab.virtual import virtual_lab
from tests.refusals import refusal

pytestmark = pytest.mark.lab

#: As a WARN of the kernel has it: the taint, and the line in the log.
WARNED = "echo 512 >/proc/sys/kernel/tainted\necho '<4>WARNING: net/sojourn/sch_mine.c:42 at mine_init' >/dev/kmsg\n"


def run(folder: Path, commands: str) -> None:
    (folder / "run").write_text(f"#!/bin/sh\nset -e\n{commands}{CHECK}")
    (folder / "run").chmod(0o755)
    simulation.run(ensure_kernel(), ensure_guest(), folder, timeout=60)


def test_a_warning_fails_the_job_and_the_log_is_kept(tmp_path: Path) -> None:
    with refusal(SimulationError, "failed", "the kernel warned of itself", LOG, "sch_mine.c:42 at mine_init"):
        run(tmp_path, WARNED)
    assert "Linux version" in (tmp_path / LOG).read_text()


def test_a_sound_kernel_leaves_no_log(tmp_path: Path) -> None:
    run(tmp_path, "")
    assert not (tmp_path / LOG).exists()


def test_a_warning_of_another_machines_router_makes_a_run_invalid(tmp_path: Path) -> None:
    with virtual_lab(tmp_path, one_core=True) as lab:
        path = ManagedRouter(lab.router, Bottleneck.symmetric(10_000_000, "pfifo"))
        for commands, measured in (("", "none"), (WARNED, "sch_mine.c:42 at mine_init")):
            path.count()
            lab.router.place.run(["sh", "-c", commands])
            (gate,) = on_router(path.lost())
            assert gate.code == "router-kernel" and gate.ok is not bool(commands) and measured in gate.measured
