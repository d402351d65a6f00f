# SPDX-License-Identifier: Apache-2.0
"""What a run started elsewhere ends by its mark; what another run of this machine has there does not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from sojourn.hardware.machine import orphans
from sojourn.hardware.machine.orphans import end_marked, machine, mark


def test_the_mark_tells_machine_and_process() -> None:
    host, boot, space = machine().split("/")
    assert host == socket.gethostname() and space.isdigit()
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert mark() == f"SOJOURN={machine()}:{os.getpid()}"


def test_only_what_this_process_started_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, pid = f"here.example/it's {os.urandom(8).hex()}/1", os.getpid()
    monkeypatch.setattr(orphans, "machine", lambda: ours)
    owners = [f"{ours}:{pid}", f"{ours}:{pid}0", f"{ours}:1", f"{ours}0:{pid}", f"{ours[1:]}:{pid}"]
    left = [subprocess.Popen(["sleep", "60"], env=os.environ | {"SOJOURN": owner}) for owner in owners]
    try:
        subprocess.run(["sh", "-c", end_marked()], check=True)
        assert left[0].wait(5) == -signal.SIGKILL
        assert [process.poll() for process in left[1:]] == [None] * 4
    finally:
        for process in left:
            process.kill()
            process.wait()
