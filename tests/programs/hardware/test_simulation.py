# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sojourn.hardware import simulation
from sojourn.hardware.confine import confinement
from sojourn.hardware.confine.confinement import Confinement
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.simulation import SimulationError
from tests.processes import outliving
from tests.refusals import refusal


@dataclass(frozen=True)
class Guest:
    """A root that no kernel mounts."""

    root: Path


@dataclass(frozen=True)
class Fake:
    """A shell script where the kernel would be, which needs a shell of the host; it finds the job's folder as `job`."""

    folder: Path

    @property
    def job(self) -> Path:
        return self.folder / "the job"

    def run(self, script: str, mounts: Mapping[str, Path] | None = None, **how: Any) -> None:
        for folder in (self.job, self.folder / "guest"):
            folder.mkdir(exist_ok=True)
        (linux := self.folder / "kernel").write_text(f"#!/bin/sh\n{script}\n")
        linux.chmod(0o755)
        kernel = Kernel(linux, self.folder / "config", "7.2", "tarball", "0")
        how = {"memory": "1M", "confinement": Confinement.NONE, **how}
        simulation.run(kernel, Guest(self.folder / "guest"), self.job, mounts=mounts, **how)


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def test_a_machine_sees_nothing_of_the_host(fake: Fake, tmp_path: Path) -> None:
    (evidence := tmp_path / "evidence of somebody").mkdir()
    (evidence / "file").write_text("mounted")
    tell = 'cat /proc/$$/environ >job/environ; echo "$0 $*" >job/words; cat evidence/file >job/read'
    fake.run(f"{tell}; echo 0 >job/status", {"evidence": evidence}, seed=7, start_ns=5)
    environ = (fake.job / "environ").read_text().removesuffix("\0").split("\0")
    assert sorted(environ) == ["HOME=/", f"PATH={os.defpath}", "SOJOURN_SEED=7", "TMPDIR=memory"]
    words = (fake.job / "words").read_text()
    assert str(tmp_path) not in words and {"./linux", "mem=1M", "time-travel-start=5"} <= set(words.split())
    assert (fake.job / "read").read_text() == "mounted"


def test_folders_may_be_told_from_where_we_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (near := Path("near")).mkdir()
    Fake(near).run("echo seen >evidence/file; echo 0 >job/status", {"evidence": near})
    assert (tmp_path / "near" / "file").read_text() == "seen\n"


def test_what_an_earlier_machine_left_is_no_success(fake: Fake) -> None:
    fake.run("echo 0 >job/status")
    with refusal(SimulationError, "not-ended", ": no root"):
        fake.run("echo no root")


def test_a_machine_that_is_late_is_ended_with_its_helpers_and_says_what_it_said(fake: Fake) -> None:
    with refusal(SimulationError, "no-answer", " 3 s: half way; booting"):
        fake.run("echo booting; sleep 60 & echo $! >job/helper; echo half way >job/err; wait", timeout=3)
    assert not outliving([int((fake.job / "helper").read_text())])


def test_what_the_watcher_raises_ends_the_machine(fake: Fake) -> None:
    def watch() -> None:
        if (fake.job / "helper").exists():
            raise OSError("the disk is nearly full")

    with pytest.raises(OSError, match="nearly full"):
        fake.run("sleep 60 & echo $! >job/new; mv job/new job/helper; wait", timeout=30, watch=watch)
    assert not outliving([int((fake.job / "helper").read_text())])


@pytest.mark.parametrize(
    ("status", "console", "ended", "words"),
    [
        ("", "Out of memory: Killed process 412 (chromium)", 1, "ran out of memory: it killed chromium"),
        ("1", "Out of memory: Killed process 9 (caddy)", 1, "ran out of memory: it killed caddy"),
        (
            "",
            "Kernel panic - not syncing: Out of memory: compulsory panic",
            1,
            "ran out of memory; its console: Kernel",
        ),
        (
            "",
            "[ 1.0] Kernel panic - not syncing: Segfault",
            1,
            "run: Kernel panic - not syncing: Segfault; its console",
        ),
        ("", "", 1, "ended early: no output"),
        (
            "",
            "wait_stub_done_seccomp : failed to wait for stub, pid = -1\nKernel panic - not syncing: no init",
            1,
            "run: the machine was killed from outside, as the kernel does if this host or a container",
        ),
        (
            "",
            "[ 0.0] make_umid",
            -9,
            "run: the machine was killed from outside, as the kernel does if this host or a container",
        ),
        ("1", "", 1, "exit code 1: what the job said last"),
    ],
)
def test_a_machine_that_fails_is_one_line(tmp_path: Path, status: str, console: str, ended: int, words: str) -> None:
    tmp_path = tmp_path / "run"
    tmp_path.mkdir()
    (tmp_path / "console").write_text(console)
    (tmp_path / "err").write_text("what the job said last\n")
    if status:
        (tmp_path / "status").write_text(f"{status}\n")
    with pytest.raises(SimulationError) as failed:
        simulation._judge(tmp_path, tmp_path / "console", ended)
    assert words in str(failed.value)


def test_a_machine_that_ends_well_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "console").write_text("reboot: Power down\n")
    (tmp_path / "status").write_text("0\n")
    simulation._judge(tmp_path, tmp_path / "console", 0)


def test_too_little_memory_is_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "available_bytes", lambda: 3 << 30)
    simulation.check_memory("256M")
    with refusal(SimulationError, "no-memory", " 4096 MB"):
        simulation.check_memory("4G")


@pytest.mark.parametrize(("have", "room", "where"), [(3, 9, "3072 MB of memory"), (9, 2, "2048 MB in {shm}")])
def test_where_memory_is_short_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, have: int, room: int, where: str
) -> None:
    monkeypatch.setattr(confinement, "confinement", lambda: Confinement.LANDLOCK)
    monkeypatch.setattr(confinement, "SHM", tmp_path)
    monkeypatch.setattr(simulation, "available_bytes", lambda: have << 30)
    monkeypatch.setattr(confinement.shutil, "disk_usage", lambda _: SimpleNamespace(free=room << 30, total=16 << 30))
    simulation.check_memory(f"{min(have, room)}G")
    with pytest.raises(SimulationError) as short:
        simulation.check_memory("4G")
    where = where.format(shm=tmp_path)
    assert (
        str(short.value) == f"a simulated machine needs 4096 MB, but only {where} are free; stop other programs first"
    )


@pytest.mark.parametrize("shm", [Path("/proc"), Path("/no/such")])
def test_memory_is_a_temporary_file_where_none_can_be_run_from_shm(shm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc is mounted noexec, as a container's /dev/shm."""
    monkeypatch.setattr(confinement, "SHM", shm)
    assert confinement.memory_folder(256 << 20) == Path(tempfile.gettempdir())


def test_memory_is_a_temporary_file_where_shm_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "SHM", tmp_path)
    monkeypatch.setattr(confinement.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30, total=1 << 30))
    assert confinement.memory_folder(256 << 20) == tmp_path
    assert confinement.memory_folder(4 << 30) == Path(tempfile.gettempdir())


def test_what_has_its_own_namespaces_needs_no_room_but_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "confinement", lambda: Confinement.NAMESPACES)
    monkeypatch.setattr(confinement.shutil, "disk_usage", lambda _: SimpleNamespace(free=1, total=1))
    simulation.check_memory("1M")
