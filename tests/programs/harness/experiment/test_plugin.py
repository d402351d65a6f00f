# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin of experiments, in sessions of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT

#: A plugin that prints the time limit of each test, s.
SHOW = """
def pytest_collection_finish(session):
    for item in session.items:
        print("limit", *item.get_closest_marker("timeout").args)
"""


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (("tests/test_video_harm.py",), "0"),
        (("tests/test_video_harm.py", "--repeat=5"), "0"),
        (("tests/test_video_harm.py", "--timeout=60"), "60.0"),
        (("tests/test_video_harm.py", "--timeout=60", "--repeat=5"), "420.0"),
        (("tests/test_window_law.py",), "0"),
        (("tests/test_window_law.py", "--timeout=60"), "60.0"),
    ],
)
def test_an_experiment_has_the_time_limit_of_its_user_and_no_other(
    tmp_path: Path, words: tuple[str, ...], limit: str
) -> None:
    """A first run builds a kernel, which takes a slow machine longer than any test of the project may."""
    (tmp_path / "show.py").write_text(SHOW)
    command = [sys.executable, "-m", "pytest", "-p", "show", "-p", "no:cacheprovider", "--collect-only", "-q", *words]
    done = subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "SOJOURN_DEFAULTS": ""},
    )  # fmt: skip
    limits = {line for line in done.stdout.splitlines() if line.startswith("limit ")}
    assert done.returncode == 0 and limits == {f"limit {limit}"}, done.stdout + done.stderr
