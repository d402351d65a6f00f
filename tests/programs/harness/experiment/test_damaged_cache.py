# SPDX-License-Identifier: Apache-2.0
"""Whoever runs an experiment reads which entry of the cache was damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sojourn.hardware.machine.files import CHECKOUT

TEST = """
from pathlib import Path
from sojourn.hardware.machine import cache

def test_it():
    entry = cache.root() / "kernel"
    build = lambda scratch: (scratch / "linux").write_text("whole")
    (cache.build_once(entry, build) / "linux").write_text("whale")
    cache.build_once(entry, build)
"""


def test_a_damaged_entry_is_named_when_all_tests_are_over(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-c", os.devnull, "-p", "sojourn.harness.experiment.plugin"]
    env = {**os.environ, "SOJOURN_CACHE": str(tmp_path), "PYTHONPATH": str(CHECKOUT / "harness" / "api")}
    done = subprocess.run(
        [*command, str(tmp_path / "test_it.py")], capture_output=True, text=True, cwd=CHECKOUT, env=env, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{tmp_path / 'kernel'}: linux is different from the build: rebuilding it" in done.stdout
