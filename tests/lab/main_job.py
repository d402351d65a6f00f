# SPDX-License-Identifier: Apache-2.0
"""The main job from the command line, and a film for it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sojourn.hardware.machine.files import CHECKOUT


def run_main_job(results: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the main job as a test, as a user would."""
    return _run(main_job(results, *arguments), environment)


def run_harm(results: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the main job by `sojourn harm`, as a user would."""
    command = [
        sys.executable,
        "-m",
        "sojourn.harness.cli",
        "harm",
        "--service=youtube",
        f"--results={results}",
        *arguments,
    ]
    return _run(command, environment)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, timeout=1200, env={**os.environ, **environment}
    )


def open_to_others(run: Path) -> list[str]:
    """What in a run, or the run itself, others than its owner could read or write."""
    return [str(path) for path in (run, *run.rglob("*")) if stat.S_IMODE(path.stat().st_mode) & 0o077]


def main_job(results: Path, *arguments: str, python: str = sys.executable) -> list[str]:
    """What runs the main job in the checkout."""
    job = [python, "-m", "pytest", "tests/test_video_harm.py", "-p", "no:cacheprovider", "--service=youtube"]
    return [*job, f"--results={results}", *arguments]


def own_film(file: Path) -> None:
    """Encode 90 s of 640x360 at about 0.8 Mbit/s, as a page plays it."""
    source = ["-f", "lavfi", "-i", "testsrc2=size=640x360:rate=30,noise=alls=8:allf=t", "-t", "90", "-g", "60"]
    coded = ["-c:v", "libx264", "-preset", "ultrafast", "-b:v", "800k", "-maxrate", "1M", "-bufsize", "1M"]
    coded += ["-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    subprocess.run(["ffmpeg", "-v", "error", *source, *coded, str(file)], check=True)
