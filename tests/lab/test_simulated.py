# SPDX-License-Identifier: Apache-2.0
"""A simulated machine whose end comes early: one line that says why, nothing left running, what was recorded kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sojourn.hardware import simulation
from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.simulation import SimulationError
from sojourn.harness.store.manifest import PARTIAL, read_manifest
from sojourn.harness.store.reasons import Reason
from sojourn.scoring.picture.recording import frame_times
from tests.processes import outliving
from tests.refusals import refusal
from tests.tiers import first

pytestmark = pytest.mark.lab

HARM, PYTEST = ("sojourn.harness.cli", "harm"), ("pytest", "tests/test_video_harm.py", "-p", "no:cacheprovider")


def machines(of: psutil.Process) -> list[psutil.Process]:
    """The simulated machine that a process runs, and the processes of its user space: these come and go."""
    running = []
    for child in of.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            running += [child] if child.name() in ("linux", "uml-userspace") else []
    return running


@pytest.mark.parametrize(
    ("job", "number", "codes", "says"),
    first(
        1,
        [
            (HARM, signal.SIGINT, (130,), "interrupted and kept: "),
            (PYTEST, signal.SIGINT, (2, -signal.SIGINT), "interrupted and kept: "),
            (PYTEST, signal.SIGKILL, (1,), "somebody killed the machine"),
        ],
    ),
)
def test_what_was_recorded_is_kept_and_nothing_runs_on(
    tmp_path: Path, job: tuple[str, ...], number: signal.Signals, codes: tuple[int, ...], says: str
) -> None:
    """The machine is killed, or the user presses Ctrl-C, in the first contender's phase."""
    options = "--service=youtube", f"--results={tmp_path}", "--buffer=2", "--timeline=solo:5,cubic:60"
    job = (sys.executable, "-m", *job, *options)
    process = subprocess.Popen(job, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        deadline = time.monotonic() + 900
        while not list(tmp_path.glob(f"*{PARTIAL}/timeline.json")):
            assert time.monotonic() < deadline and process.poll() is None, process.communicate()[0]
            time.sleep(0.1)
        running = machines(psutil.Process(process.pid))
        assert len(running) > 10
        kernel = running[0].pid
        os.kill(kernel if number == signal.SIGKILL else process.pid, number)
        said = ""
        while number == signal.SIGINT and process.poll() is None and time.monotonic() < deadline:
            process.send_signal(number)  # and again, out of impatience
            with suppress(subprocess.TimeoutExpired):
                said, _ = process.communicate(timeout=0.2)
        said = said or process.communicate(timeout=300)[0]
    finally:
        process.kill()
    assert process.returncode in codes and says in said and "Traceback" not in said, said
    assert not outliving(running)
    (run,) = tmp_path.iterdir()
    manifest = read_manifest(run)
    assert run.suffix == PARTIAL and manifest.status == "interrupted" and not (run / "manifest.json.new").exists()
    assert number == signal.SIGKILL or manifest.reasons == [Reason.of("stopped", "stopped by Ctrl-C")]
    assert {"timeline.json", "screen.part.mp4", "client.pcap", "player.jsonl", "qdisc.jsonl"} <= set(manifest.files)
    assert {"kernel source", "kernel build", "guest", "sources", "film"} <= set(manifest.versions)
    # What the machine had written is there, not in a cache that went with it: the warm-up and the first phase at least.
    (t0,) = (phase["start"] for phase in json.loads((run / "timeline.json").read_text())["phases"][:1])
    sampled = [json.loads(line)["t"] for line in (run / "qdisc.jsonl").read_text().splitlines()[:-1]]
    assert sampled[-1] > t0 + 0.5 and frame_times(run / "screen.part.mp4")[-1] > 0.5


def test_a_machine_out_of_memory_says_so(tmp_path: Path) -> None:
    hungry = "echo 1 >/proc/sys/vm/overcommit_memory\nexec dd if=/dev/zero of=/dev/null bs=300M count=1\n"
    (tmp_path / "run").write_text(f"#!/bin/sh\n{hungry}")
    (tmp_path / "run").chmod(0o755)
    with refusal(SimulationError, "no-memory", " dd; ", one_line=False):
        simulation.run(ensure_kernel(), ensure_guest(), tmp_path, memory="128M")
