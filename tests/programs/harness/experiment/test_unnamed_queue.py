# SPDX-License-Identifier: Apache-2.0
"""Who names no queue reads once, before anything is measured, which one it is and why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.options.model import DEFAULT_QUEUE

LINE = f"queue: fq_codel flows 1 (default), {DEFAULT_QUEUE}; "


@pytest.mark.parametrize(
    ("arguments", "environment", "times"),
    [
        ((), {}, 1),
        (("--service=all",), {}, 1),
        (("--qdisc=fq_codel flows 1",), {}, 0),
        ((), {"SOJOURN_QDISC": "dualpi2"}, 0),
    ],
)
def test_it_is_said_once(tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], times: int) -> None:
    """The test ends at once, as one run needs no cluster."""
    job = [
        sys.executable,
        "-m",
        "pytest",
        "tests/test_video_harm.py",
        "-p",
        "no:cacheprovider",
        "--engine=tls://nowhere:1",
    ]
    done = subprocess.run(
        [*job, f"--results={tmp_path}", *arguments], cwd=CHECKOUT, capture_output=True, text=True, timeout=120,
        env=os.environ | {"SOJOURN_DEFAULTS": ""} | environment,
    )  # fmt: skip
    assert done.returncode == 1 and "--engine: one run is made on this machine" in done.stdout, (
        done.stdout + done.stderr
    )
    assert done.stdout.count(LINE) == times, done.stdout
