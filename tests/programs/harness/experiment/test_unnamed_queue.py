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
    ("job", "code"),
    [(("pytest", "tests/test_video_harm.py", "-p", "no:cacheprovider"), 1), (("sojourn.harness.cli", "harm"), 4)],
    ids=["pytest", "sojourn harm"],
)
@pytest.mark.parametrize(
    ("arguments", "environment", "times"),
    [
        ((), {}, 1),
        (("--service=all",), {}, 1),
        (("--qdisc=fq_codel flows 1",), {}, 0),
        ((), {"SOJOURN_QDISC": "dualpi2"}, 0),
    ],
)
def test_it_is_said_once(
    tmp_path: Path, job: tuple[str, ...], code: int, arguments: tuple[str, ...], environment: dict[str, str], times: int
) -> None:
    """The test ends at once, as one run needs no cluster."""
    words = (*job, "--engine=tls://nowhere:1", f"--results={tmp_path}", *arguments)
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=CHECKOUT, capture_output=True, text=True, timeout=120,
        env=os.environ | {"SOJOURN_DEFAULTS": ""} | environment,
    )  # fmt: skip
    printed = done.stdout + done.stderr
    assert done.returncode == code and "--engine: a single run is executed on this machine" in printed, printed
    assert done.stdout.count(LINE) == times, done.stdout
