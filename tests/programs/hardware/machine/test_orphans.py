# SPDX-License-Identifier: Apache-2.0
"""What a killed run left elsewhere is ended; what a live one of a host of the same name has there is not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from sojourn.bottleneck.lease import LeaseError
from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.hardware.machine import orphans
from sojourn.hardware.machine.orphans import end_orphans, machine, mark
from sojourn.hardware.machine.place import Place
from sojourn.harness.lab import physical
from tests.unit.hardware.lab.test_lab_file import GOOD, write

_DEAD = 1 << 22  # beyond the largest pid


def test_the_mark_tells_machine_and_process() -> None:
    host, boot, space = machine().split("/")
    assert host == socket.gethostname() and space.isdigit()
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert mark() == f"SOJOURN={machine()}:{os.getpid()}"


def test_only_what_dead_processes_of_this_machine_left_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = f"here.example/{os.urandom(8).hex()}/1"
    monkeypatch.setattr(orphans, "machine", lambda: ours)
    owners = [f"{ours}:{_DEAD}", f"{ours}:{os.getpid()}", f"{ours}0:{_DEAD}", f"here.example:{_DEAD}"]
    left = [subprocess.Popen(["sleep", "60"], env=os.environ | {"SOJOURN": owner}) for owner in owners]
    try:
        assert end_orphans(Place("receiver")) == ["sleep 60"]
        assert left[0].wait(5) == -signal.SIGKILL
        assert [process.poll() for process in left[1:]] == [None] * 3
    finally:
        for process in left:
            process.kill()
            process.wait()


class Told(Place):
    """A place that knows one answer."""

    def run(self, *_: object, **__: object) -> str:
        return f"1234 \n1235\n\n1236 iperf3 -s\n1237 {machine()}:x\n"


def test_one_that_ends_as_it_is_looked_at_is_passed_over() -> None:
    assert end_orphans(Told("receiver")) == []


def test_nothing_is_ended_in_a_lab_that_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def used(_: Place) -> str:
        raise LeaseError("router: in use by another run")

    places = {name: Told(name, ("true",), remote=True) for name in ("router", "client", "server", "sender", "receiver")}
    asked: list[Place] = []
    monkeypatch.setattr("sojourn.hardware.machine.cores.LATENCY", str(tmp_path / "none"))  # this host's cores may sleep
    monkeypatch.setattr(physical, "places_of", lambda _: places)
    monkeypatch.setattr(physical, "undo_stale", used)
    monkeypatch.setattr(physical, "end_orphans", asked.append)
    with pytest.raises(LeaseError), physical.PhysicalLab(read_lab_file(write(tmp_path, GOOD))):
        pass
    assert asked == []
