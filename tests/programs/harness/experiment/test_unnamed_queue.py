# SPDX-License-Identifier: Apache-2.0
"""Who names no queue reads once, before anything is measured, which one it is and why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.cli import app
from sojourn.harness.options.model import DEFAULT_QUEUE
from tests.tiers import first

LINE = f"queue: fq_codel flows 1 (default), {DEFAULT_QUEUE}; "
#: The run ends at once, as one run needs no cluster.
ENGINE, ENDS = "--engine=tls://nowhere:1", "--engine: a single run is executed on this machine"
CASES = [
    ((), {}, 1),
    ((), {"SOJOURN_QDISC": "dualpi2"}, 0),
    (("--service=all",), {}, 1),
    (("--qdisc=fq_codel flows 1",), {}, 0),
]


@pytest.mark.parametrize(("arguments", "environment", "times"), CASES)
def test_the_command_prints_it_once(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], times: int
) -> None:
    words = ["harm", ENGINE, f"--results={tmp_path}", *arguments]
    done = CliRunner().invoke(app, words, env={"SOJOURN_DEFAULTS": "", "COLUMNS": "300", **environment})
    assert done.exit_code == 4 and ENDS in done.stderr, done.output
    assert done.stdout.count(LINE) == times, done.stdout


@pytest.mark.parametrize(("arguments", "environment", "times"), first(2, CASES))
def test_pytest_prints_it_once(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], times: int
) -> None:
    """Both have one session: the cases that it tells apart by options are the command's."""
    words = ["tests/test_video_harm.py", "-p", "no:cacheprovider", ENGINE, f"--results={tmp_path}", *arguments]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=CHECKOUT, capture_output=True, text=True, timeout=120,
        env=os.environ | {"SOJOURN_DEFAULTS": ""} | environment,
    )  # fmt: skip
    printed = done.stdout + done.stderr
    assert done.returncode == 1 and ENDS in printed, printed
    assert done.stdout.count(LINE) == times, done.stdout
