# SPDX-License-Identifier: Apache-2.0
"""The virtual lab is what it says, and leaves nothing behind however it ends."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from sojourn.harness.lab.contract import Lab
from sojourn.harness.soak import leaks
from tests.processes import outliving

pytestmark = pytest.mark.lab

# A lab that says when it is up and then does nothing until it is ended.
_HOLD = """
import select, sys
from pathlib import Path
from tests.lab.virtual import virtual_lab
print("starting", flush=True)
with virtual_lab(Path(sys.argv[1])) as lab:
    lab.client.run(["ping", "-c", "1", "-W", "20", lab.addresses.server])
    print("up", flush=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        pass
"""


def host_state() -> tuple[set[str], set[str]]:
    """Return mount points and interfaces of the host, which no lab may change; named namespaces are others'."""
    links = subprocess.run(["ip", "-o", "-br", "link"], capture_output=True, text=True, check=True).stdout
    mounts = {it for it in leaks.mounts() if not it.startswith("/run/netns")}
    return mounts, {line.split()[0] for line in links.splitlines()}


def start(folder: Path, mark: str) -> subprocess.Popen[str]:
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {leaks.MARK: mark},
    )
    assert process.stdout and process.stdout.readline() == "starting\n"
    return process


def test_six_starts_three_killed_leave_nothing(tmp_path: Path, scratch: Path) -> None:
    before, mark, chance = host_state(), uuid.uuid4().hex, random.Random(7)
    killed = set(chance.sample(range(5), 3))
    for i in range(6):
        process = start(tmp_path / str(i), mark)
        assert process.stdin and process.stdout
        if i in killed:
            time.sleep(chance.uniform(0, 1.2))  # the random moment at which it is killed is the point here
            process.kill()
            process.wait()
            continue
        assert process.stdout.readline() == "up\n", f"start {i} after a kill failed"
        if i % 2 == 0:
            process.send_signal(signal.SIGINT)
        else:
            process.stdin.close()
        process.wait(timeout=120)
    outliving(leaks.marked(mark))  # what was killed takes its time to end
    assert [p.cmdline() for p in leaks.marked(mark)] == []
    assert host_state() == before
    assert list(scratch.iterdir()) == []


def test_nodes_are_kernels_of_their_own_with_every_queue_and_control(lab: Lab) -> None:
    assert lab.router.versions()["kernel"] != os.uname().release
    controls = lab.sender.run(["cat", "/proc/sys/net/ipv4/tcp_available_congestion_control"]).split()
    assert {"cubic", "reno", "bbr", "dctcp", "prague"} <= set(controls)
