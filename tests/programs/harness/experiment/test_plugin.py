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


#: What pytest-playwright and pytest-selenium add.
THEIRS = """
def pytest_addoption(parser):
    group = parser.getgroup("playwright", "Playwright")
    group.addoption("--browser", action="append", default=[], help="browser engine")
    parser.addoption("--driver", default="theirs")
"""
#: A test of a project that loads Sojourn and has these plugins too.
PROJECT = """
def test(options, pytestconfig):
    assert pytestconfig.getoption("--browser") == ["firefox"] and pytestconfig.getoption("--driver") == "theirs"
    assert options.browser is None and options.driver == "selenium" and options.seed == 7
"""


def test_it_works_next_to_plugins_with_options_of_the_same_names(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(THEIRS)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["sojourn.harness.experiment.plugin"]\n')
    (tmp_path / "test_project.py").write_text(PROJECT)
    command = [sys.executable, "-m", "pytest", "-p", "theirs", "-p", "no:cacheprovider", "-q", "--rootdir=.", "."]
    done = subprocess.run(
        [*command, "--browser=firefox", "--sojourn-driver=selenium", "--seed=7"], cwd=tmp_path, capture_output=True,
        text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(CHECKOUT / "harness" / "api")])},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
