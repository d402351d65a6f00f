# SPDX-License-Identifier: Apache-2.0
"""A run whose memory another program takes: the kernel kills the machine, and the run says so and gives no number."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from sojourn.hardware.images.desktop import ensure_desktop
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.manifest import PARTIAL, StoreError, read_manifest
from tests.lab.control_group import little_memory
from tests.processes import outliving

pytestmark = pytest.mark.lab

LIMIT = 6 << 30
#: Takes memory until somebody of its control group is killed for it.
HOG = """
held = []
while True:
    held.append(b"x" * (16 << 20))
"""


@pytest.mark.nightly
def test_a_machine_that_the_kernel_kills_for_memory_gives_no_number(tmp_path: Path) -> None:
    ensure_desktop()
    with little_memory(LIMIT) as within:
        command = [
            sys.executable, "-m", "pytest", "tests/test_video_harm.py", "-p", "no:cacheprovider", "--service=youtube",
            "--timeline=solo:20,cubic:60", f"--results={tmp_path}",
        ]  # fmt: skip
        run = subprocess.Popen(
            [*within, *command], cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            deadline = time.monotonic() + 300
            while not list(tmp_path.glob(f"*{PARTIAL}/player.jsonl")):
                assert time.monotonic() < deadline and run.poll() is None
                time.sleep(0.2)
            mine = psutil.Process(run.pid).children(recursive=True)
            for process in mine:
                if process.name() == "linux":  # the first to be killed, as the largest mostly is
                    Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
            with subprocess.Popen([*within, sys.executable, "-c", HOG]) as hog:
                said, _ = run.communicate(timeout=300)
                hog.kill()
        finally:
            run.kill()
            run.wait()
    assert run.returncode != 0
    (left,) = tmp_path.iterdir()
    manifest = read_manifest(left)
    print(manifest.status, manifest.reasons)
    assert left.suffix == PARTIAL and manifest.status == "interrupted", said
    with pytest.raises(StoreError):
        load_run(left)
    assert not outliving(mine)
    assert any(
        "the machine was killed from outside, as the kernel does if this host or a container runs out of memory" in line
        for line in said.splitlines()
    ), said
