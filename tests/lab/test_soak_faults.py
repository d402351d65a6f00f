# SPDX-License-Identifier: Apache-2.0
"""A soak with faults in its runs (`--soak-minutes`), and many starts of the virtual lab (`--lab-starts`).

Needs root: the results lie on a tmpfs that is filled, and a frozen cgroup stands in for a suspended host. There
CLOCK_MONOTONIC goes on, which stands still in a suspended one: the run sees a stall of 20 s, not a suspension.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import psutil
import pytest

from sojourn.hardware.machine import place
from sojourn.hardware.machine.scratch import scratch_file
from sojourn.harness.options.model import Options
from sojourn.harness.soak import leaks, state
from sojourn.harness.soak.loop import SoakExit
from sojourn.scoring.schema.scores import SCORES
from tests.lab.real_time.test_virtual import host_state
from tests.lab.test_soak import PLAN, check_runs, mid_run, running, start, until
from tests.lab.virtual import virtual_lab

pytestmark = [pytest.mark.lab, pytest.mark.nightly]

_CGROUPS = Path("/sys/fs/cgroup")
_SUSPENDED_S = 20
_RUN_S = 240
#: How often each fault comes in an hour; in less time fewer, but one of each.
_AN_HOUR = {"router": 5, "browser": 5, "recorder": 3, "full": 1, "suspended": 1, "killed": 3}


@pytest.fixture
def disk(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[Path]:
    """A disk of its own, large enough for the evidence of all short runs of a soak."""
    if os.geteuid():
        pytest.skip("needs root: it mounts a disk of its own and freezes a cgroup")
    size = 1000 + 25 * round(pytestconfig.getoption("soak_minutes"))
    (where := tmp_path / "disk").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}m", "none", where], check=True)
    yield where
    subprocess.run(["umount", where], check=True)


def changes(folder: Path) -> tuple[set[str], set[str]]:
    """Return the mounts where a lab might leave one, and interfaces; elsewhere others mount what they like."""
    places = (folder, Path("/tmp/sojourn-"), Path("/run"), Path("/sys"))
    return {it for it in leaks.mounts() if it.startswith(tuple(map(str, places)))}, host_state()[1]


@contextmanager
def frozen(processes: list[psutil.Process]) -> Iterator[None]:
    """Freeze processes by a cgroup of their own, version 1 or 2."""
    old = (_CGROUPS / "freezer").is_dir()
    group = _CGROUPS / ("freezer" if old else "") / f"sojourn-{uuid.uuid4().hex[:8]}"
    switch, on, off = ("freezer.state", "FROZEN", "THAWED") if old else ("cgroup.freeze", "1", "0")
    group.mkdir()
    try:
        for process in processes:
            with suppress(OSError):  # has ended meanwhile
                (group / "cgroup.procs").write_text(str(process.pid))
        (group / switch).write_text(on)
        try:
            yield
        finally:
            (group / switch).write_text(off)
    finally:
        end = time.monotonic() + 10
        while group.exists() and time.monotonic() < end:  # some start others while they are moved back
            for pid in (group / "cgroup.procs").read_text().split():
                with suppress(OSError):
                    (group.parent / "cgroup.procs").write_text(pid)
            with suppress(OSError):
                group.rmdir()
        assert not group.exists()


class Soaked:
    """A soak at work, and what may happen to it."""

    def __init__(self, folder: Path, hours: float) -> None:
        self._folder, self._hours = folder, hours
        self.said: list[str] = []
        self._start()
        until(self.process, lambda: state.batches(folder / "soak"), 60)
        (self.batch,) = state.batches(folder / "soak")

    def _start(self) -> None:
        self.process = start(self._folder, self._hours)
        threading.Thread(target=lambda: self.said.extend(self.process.stdout or ()), daemon=True).start()

    def __enter__(self) -> Soaked:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(_RUN_S)

    def _kill(self, what: Callable[[list[str]], bool]) -> None:
        chosen = []
        for process in leaks.marked(str(self.batch.path)):
            with suppress(psutil.Error):  # has ended meanwhile
                chosen += [process] if what(process.cmdline() or [""]) else []
        min(chosen, key=psutil.Process.create_time).kill()

    def router(self) -> None:
        self._kill(lambda command: command[0].endswith("linux") and "sj_name=router" in command)

    def browser(self) -> None:
        def is_browser(command: list[str]) -> bool:
            return command[0].endswith("chromium") and not any(word.startswith("--type=") for word in command)

        self._kill(is_browser)

    def recorder(self) -> None:
        self._kill(lambda command: command[0].endswith("ffmpeg"))

    def suspended(self) -> None:
        with frozen([psutil.Process(self.process.pid), *leaks.marked(str(self.batch.path))]):
            time.sleep(_SUSPENDED_S)  # as long as the fault lasts

    def full(self) -> None:
        """The disk is filled; once the soak has ended for it there is room again, and it goes on."""
        filler = self._folder / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
        assert self.process.wait(_RUN_S) == SoakExit.DISK_FULL, self.said
        assert self.batch.batch.code == SoakExit.DISK_FULL and "keep_free_gb" in self.batch.batch.cause
        filler.unlink()
        self._start()

    def killed(self) -> None:
        self.process.kill()
        self.process.wait()
        self._start()


@pytest.mark.timeout(24 * 3600)
def test_no_fault_of_a_soak_gives_a_number_or_leaves_anything(
    disk: Path, scratch: Path, pytestconfig: pytest.Config, options: Options
) -> None:
    minutes = pytestconfig.getoption("soak_minutes")
    faults = [name for name, count in _AN_HOUR.items() for _ in range(max(1, round(count * minutes / 60)))]
    random.Random(options.seed).shuffle(faults)
    before, begun, hurt = changes(disk), time.monotonic(), dict[int, str]()
    plan = PLAN.replace("[options]", '[options]\nlab = "virtual"')
    (disk / "plan.toml").write_text(plan.format(rounds=10_000, retries=0, timeline="solo:5,cubic:15"))
    with Soaked(disk, hours=minutes / 60 + 1) as soaked:
        folder, undisturbed = soaked.batch, 0
        while len(hurt) < len(faults) or time.monotonic() < begun + 60 * minutes or not undisturbed:
            until(soaked.process, lambda: mid_run(folder), _RUN_S)
            (attempt,) = running(folder)
            # Evenly over the time: between them there are runs that nothing happens to.
            if len(hurt) < len(faults) and time.monotonic() >= begun + 60 * minutes * len(hurt) / len(faults):
                hurt[attempt.number] = fault = faults[len(hurt)]
                getattr(soaked, fault)()
            else:
                undisturbed += 1
            until(soaked.process, lambda it=attempt: it not in running(folder), _RUN_S)
    assert soaked.process.returncode == 128 + signal.SIGTERM, soaked.said

    attempts = {it.number: it for it in folder.attempts()}
    told = {f"{number} {fault}": attempts[number].outcome for number, fault in hurt.items()}
    print(told, *(f"{it.number} {it.outcome}: {it.reasons[:1]}" for it in attempts.values()), sep="\n")
    assert not {"valid", "running"} & set(told.values()), told
    assert all(attempts[number].reasons for number in hurt)
    assert any(it.outcome in ("valid", "void") for it in attempts.values())
    check_runs(folder)
    valid = {it.run for it in attempts.values() if it.outcome == "valid"}
    with_numbers = {it.parent.name for it in folder.path.glob(f"*/{SCORES}") if json.loads(it.read_text())["harm"]}
    assert with_numbers <= valid  # nor does a run that was cut short
    assert not [line for line in soaked.said if "left running" in line or "left mounted" in line]
    sizes = [it.memory_mb for it in attempts.values() if it.memory_mb]
    print(f"{len(sizes)} runs; memory of the soak {min(sizes):.1f} to {max(sizes):.1f} MB")
    assert all(abs(size / median(sizes) - 1) <= 0.1 for size in sizes), sizes
    assert changes(disk) == before and not list(scratch.glob("sojourn-*"))


@pytest.mark.timeout(6 * 3600)
def test_starts_and_stops_of_the_virtual_apu_leave_nothing(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the machine nor in the process that starts them: no process, and so no namespace, and no mount."""
    monkeypatch.setitem(place.ENVIRONMENT, leaks.MARK, mark := uuid.uuid4().hex)
    count, own = pytestconfig.getoption("lab_starts"), psutil.Process()

    (kept := scratch_file(".kept")).unlink()
    own_scratch = kept.parent

    def mine() -> tuple[int, int, int]:
        return own.num_fds(), own.num_threads(), len(os.listdir(own_scratch))

    with virtual_lab(tmp_path):  # once, for what is made only once
        assert len(leaks.marked(mark)) > 10
    assert leaks.clean(mark, leaks.mounts(), tmp_path) == []
    before, own_before, memory, begun = changes(tmp_path), mine(), own.memory_info().rss, time.monotonic()
    for number in range(count):
        with virtual_lab(tmp_path) as lab:
            lab.client.run(["ping", "-c", "1", "-W", "5", lab.addresses.server])
        assert leaks.clean(mark, leaks.mounts(), tmp_path) == [] and mine() == own_before, f"after start {number + 1}"
    assert changes(tmp_path) == before
    grown = own.memory_info().rss / memory - 1
    print(f"{count} starts, {(time.monotonic() - begun) / count:.2f} s each; memory {grown:+.1%}")
    assert grown <= 0.1
