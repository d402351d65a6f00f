# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sojourn.hardware import simulation
from sojourn.hardware.images.desktop import Desktop
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.machine import programs
from sojourn.hardware.simulation import SimulationError
from sojourn.harness.experiment.simulated import all_at_once
from sojourn.harness.lab import machine
from sojourn.harness.lab.machine import Machine, SimulatedError


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("LabError: no route", "LabError: no route"),
        (None, "the machine ended early: no output"),
    ],
)
def test_what_the_inside_says_comes_before_how_the_machine_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str | None, says: str
) -> None:
    def fail(_kernel: object, _guest: object, job: Path, **_: Any) -> None:
        if told:
            (job / "error").write_text(told)
        raise SimulationError(f"{job}: the machine ended early: no output")

    monkeypatch.setattr(machine.simulation, "run", fail)
    made = SimpleNamespace(kernel=None, desktop=SimpleNamespace(sources=tmp_path), memory="4G", untrusted=False)
    with pytest.raises(SimulatedError) as failed:
        machine.start(made, tmp_path, "exec true", evidence=tmp_path)  # type: ignore[arg-type]
    assert str(failed.value) == says


def test_a_machine_is_named_by_what_decides_its_bytes() -> None:
    desktop = Desktop(Path("/r"), Path("/s"), {"chromium": "140", "python numpy": "2"}, "d", "c")
    kernel = Kernel(Path("/l"), Path("/c"), "7.2", "tarball", "k")
    shown = simulation.shown_processor(programs.processor()[programs.FLAGS])
    assert Machine(kernel, desktop).versions == {
        "kernel source": "tarball", "kernel build": "k", "guest": "d", "sources": "c", "system calls": "seccomp",
        "guest processor": shown,
        "guest chromium": "140", "guest python numpy": "2",
    }  # fmt: skip
    assert Machine(kernel, desktop, untrusted=True).versions["system calls"] == "ptrace"


@pytest.mark.parametrize(("fitting", "at_once"), [(2, 2), (1, 1), (0, 1)])
def test_a_process_has_no_more_machines_at_once_than_memory_holds(
    monkeypatch: pytest.MonkeyPatch, fitting: int, at_once: int
) -> None:
    monkeypatch.setattr(machine.simulation, "fitting", lambda memory: fitting)
    running, most = [0], [0]

    def run() -> None:
        with machine.memory_slot(SimpleNamespace(memory="4G")):  # type: ignore[arg-type]
            running[0] += 1
            most[0] = max(most[0], running[0])
            time.sleep(0.2)
            running[0] -= 1

    all_at_once(run, run, run)
    assert (running, most) == ([0], [at_once])


def test_a_machine_sees_no_more_of_the_cache_than_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    for name in ("clip", "tls", "scores", "kernel", "mine"):
        (tmp_path / name).mkdir()
    program = SimpleNamespace(digest="0123", folder=tmp_path / "programs" / "0123")
    assert machine._lent([program]) == {  # type: ignore[list-item]
        "cache/clip": tmp_path / "clip",
        "cache/tls": tmp_path / "tls",
        "cache/programs/0123": program.folder,
    }
