# SPDX-License-Identifier: Apache-2.0
"""The main job from the command line."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from hardware.machine.files import CHECKOUT


def run_main_job(results: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the main job as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "tests/test_video_harm.py", "-p", "no:cacheprovider", "--service=youtube",
         f"--results={results}", *arguments],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=1200, env=os.environ | environment,
    )  # fmt: skip


def open_to_others(run: Path) -> list[str]:
    """What in a run, or the run itself, others than its owner could read or write."""
    return [str(path) for path in (run, *run.rglob("*")) if stat.S_IMODE(path.stat().st_mode) & 0o077]
