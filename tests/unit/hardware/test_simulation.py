# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from hardware import simulation
from hardware.simulation import SimulationError


@pytest.mark.parametrize(
    ("status", "console", "words"),
    [
        ("", "Out of memory: Killed process 412 (chromium)", "memory was used up: it ended chromium"),
        ("", "[ 1.0] Kernel panic - not syncing: Segfault", "run: Kernel panic - not syncing: Segfault; its console"),
        ("", "", "ended early: it said nothing"),
        ("1", "", "exit code 1: what the job said last"),
    ],
)
def test_a_machine_that_fails_is_one_line(tmp_path: Path, status: str, console: str, words: str) -> None:
    tmp_path = tmp_path / "run"
    tmp_path.mkdir()
    (tmp_path / "console").write_text(console)
    (tmp_path / "err").write_text("what the job said last\n")
    if status:
        (tmp_path / "status").write_text(f"{status}\n")
    with pytest.raises(SimulationError) as failed:
        simulation._judge(tmp_path, tmp_path / "console")
    assert words in str(failed.value)


def test_a_machine_that_ends_well_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "console").write_text("reboot: Power down\n")
    (tmp_path / "status").write_text("0\n")
    simulation._judge(tmp_path, tmp_path / "console")


def test_too_little_memory_is_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation.psutil, "virtual_memory", lambda: SimpleNamespace(available=3 << 30))
    simulation.check_memory("256M")
    with pytest.raises(SimulationError, match=r"a simulated machine of 4096 MB: \d+ MB (of memory|in /dev/shm)"):
        simulation.check_memory("4G")
