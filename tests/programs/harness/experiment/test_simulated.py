# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from sojourn.hardware import simulation
from sojourn.hardware.build_tool import call
from sojourn.hardware.kernel_build.sources import OURS
from sojourn.hardware.machine.cache import BuildError
from sojourn.harness.experiment import simulated
from sojourn.harness.experiment.simulated import all_at_once
from sojourn.harness.lab import guest_job, machine
from sojourn.harness.lab.machine import SimulatedError
from sojourn.harness.store.runs import RunStore
from sojourn.traffic.user_program import UserProgramError, read_user_program
from tests.processes import of_command
from tests.refusals import refusal


@pytest.mark.parametrize("name", [guest_job.ERROR, guest_job.VERSIONS, "err", "status"])
@pytest.mark.parametrize("kind", ["pipe", "sparse file", "link", "folder"])
def test_nothing_that_a_machine_left_is_read_whole(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that ended early, each of these is read."""
    (console := tmp_path / "said").write_text("Kernel panic - not syncing\n")
    (job := tmp_path / "job").mkdir()
    if kind == "pipe":
        os.mkfifo(job / name)
    elif kind == "link":
        (job / name).symlink_to("/dev/zero")
    elif kind == "folder":
        (job / name).mkdir()
    else:
        (job / name).touch()
        os.truncate(job / name, 1 << 42)

    def ends(_kernel: Any, _guest: Any, folder: Path, **_: Any) -> None:
        simulation._judge(folder, console, 1)

    monkeypatch.setattr(simulation, "run", ends)
    monkeypatch.setattr(machine, "_lent", dict)
    with RunStore(tmp_path / "results").create("t", "c") as run, suppress(SimulatedError):
        (run.path / "recorded").write_text("x")
        simulated._add_versions(run, job, {})
    made = SimpleNamespace(kernel=None, desktop=SimpleNamespace(sources=tmp_path), memory="1M", untrusted=False)
    with pytest.raises(SimulatedError) as stopped:
        machine.start(made, job, "true", evidence=run.path)  # type: ignore[arg-type]
    assert len(str(stopped.value)) < 10_000


def test_what_is_known_of_a_machine_is_not_for_it_to_say(tmp_path: Path) -> None:
    (tmp_path / guest_job.VERSIONS).write_text('{"confined by": "nothing", "player": "9"}')
    with RunStore(tmp_path / "results").create("t", "c") as run:
        simulated._add_versions(run, tmp_path, {"confined by": "namespaces"})
        assert run.manifest.versions == {"confined by": "namespaces", "player": "9"}


def test_makers_work_at_once_and_answer_in_order() -> None:
    both = threading.Barrier(2, timeout=60)  # which none passes alone
    assert all_at_once(lambda: both.wait() < 2 and "a", lambda: both.wait() < 2 and "b") == ["a", "b"]


def test_what_fails_first_ends_the_others_programs() -> None:
    def fail() -> None:
        while not of_command(psutil.Process().children(), "import time; time.sleep(60)"):
            time.sleep(0.01)
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        all_at_once(lambda: subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"]) and None, fail)


def test_what_stops_a_set_up_ends_the_tools_that_build_and_starts_no_other() -> None:
    """A tool has a session of its own, so that a terminal's Ctrl-C does not reach it."""
    refused: list[str] = []

    def builds() -> None:
        for _ in range(2):
            try:
                call(["sleep", "9754"])
            except BuildError as why:
                refused.append(str(why))

    def stopped() -> None:
        while not of_command(psutil.Process().children(recursive=True), "9754"):
            time.sleep(0.01)
        raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        all_at_once(builds, stopped)
    assert time.monotonic() - begun < 60
    assert len(refused) == 2 and refused[1] == "another part of the set-up failed or was stopped"
    assert not of_command(psutil.Process().children(recursive=True), "9754")


@pytest.mark.parametrize("given", ["url", "script", "clip", ""])
def test_what_a_user_brings_is_trusted_nowhere(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a run of this process nor in one of a cluster's worker."""
    asked = {
        "url": "",
        "script": None,
        "clip": None,
        "second_video": False,
        "responsiveness": False,
        "recorder": "",
        "driver": "",
    }
    options: Any = SimpleNamespace(sources=OURS, programs=(), **asked | ({given: "mine"} if given else {}))
    for name in ("ensure_kernel", "ensure_desktop", "encoder"):
        monkeypatch.setattr(simulated, name, lambda *_: None)
    service: Any = SimpleNamespace(prepare=lambda _: None)
    machines = [simulated.machine_of(options), simulated.prepare(options, service, lambda _: lambda *_: None)]
    assert [machine.untrusted for machine in machines] == [bool(given)] * 2


def test_a_program_that_cannot_run_is_refused_before_a_kernel_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated, "ensure_desktop", lambda *_: SimpleNamespace(root=tmp_path))
    monkeypatch.setattr(simulated, "ensure_kernel", lambda *_: pytest.fail("a kernel is built"))
    (tmp_path / "it.toml").write_text("server = 'missing {port}'\nclient = 'missing {port}'\nsender = 'client'\n")
    program = read_user_program(str(tmp_path / "it.toml"))
    asked = {"url": "", "script": None, "clip": None, "second_video": False, "recorder": "", "driver": ""}
    options: Any = SimpleNamespace(sources=OURS, programs=(program,), **asked)
    with refusal(UserProgramError, "missing-program", "it: server: missing: the machine does not have it"):
        simulated.machine_of(options)
