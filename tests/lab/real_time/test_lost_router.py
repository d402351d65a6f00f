# SPDX-License-Identifier: Apache-2.0
"""A router that ends in mid-run: one line that says so, and what was recorded is kept."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.store.manifest import PARTIAL, read_manifest

pytestmark = pytest.mark.lab


def router_of(job: psutil.Process) -> psutil.Process:
    """Return the kernel that is a run's router; other processes of the run come and go."""
    for child in job.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.name() == "linux" and "sj_name=router" in child.cmdline():
                return child
    pytest.fail("no router runs")


@pytest.mark.nightly
def test_stopped_router_in_mid_run_keeps_what_was_recorded(tmp_path: Path) -> None:
    job = [sys.executable, "-m", "pytest", "tests/test_video_harm.py", "-p", "no:cacheprovider",
           "--service=youtube", "--lab=virtual", f"--results={tmp_path}",
           "--timeline=solo:5,cubic:60"]  # fmt: skip
    process = subprocess.Popen(job, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        deadline = time.monotonic() + 120
        while not any(log.stat().st_size for log in tmp_path.glob(f"*{PARTIAL}/ss.jsonl")):
            assert time.monotonic() < deadline and process.poll() is None, process.communicate()[0]
            time.sleep(0.1)
        router_of(psutil.Process(process.pid)).kill()
        said, _ = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode != 0
    assert "the router ended during the run" in said, said
    assert "conftest.py" not in said
    (run,) = tmp_path.iterdir()
    manifest = read_manifest(run)
    assert run.suffix == PARTIAL and manifest.status == "interrupted"
    assert {"timeline.json", "screen.mp4", "client.pcapng.zst", "player.jsonl", "qdisc.jsonl"} <= set(manifest.files)
