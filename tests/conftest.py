# SPDX-License-Identifier: Apache-2.0
"""Which tests may run side by side, and how many."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes is up to the host's load.
settings.register_profile("any-host", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-host")

_LAB = PurePosixPath("tests/lab")
#: Files whose tests share what takes each worker seconds to make, or mostly wait: others use the processors meanwhile.
_SHARING = (
    "apps/test_clip.py", "apps/test_hostile_pages.py", "apps/test_http3_origin.py", "apps/test_meeting.py",
    "apps/test_shown.py", "harness/cli/test_every_kind.py", "harness/report/test_accessible.py",
    "scoring/test_changed_run.py", "test_wheel.py", "tests/lab/test_map.py", "tests/lab/test_plugins.py",
    "tests/lab/test_rpm.py",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    words = parser.getgroup("sojourn-golden", "Sojourn: the words of pages and terminals")
    words.addoption("--update-golden", action="store_true", help="rewrite the files in tests/golden that differ")
    nightly = parser.getgroup("sojourn-nightly", "Sojourn: how much the tests of `-m nightly` do")
    nightly.addoption("--soak-minutes", type=float, default=60, help="length of the soak with faults (default: 60)")
    nightly.addoption("--lab-starts", type=int, default=500, help="starts and stops of the virtual APU (default: 500)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """`logical`: one worker a processor; `auto`: as far as each finds memory for a machine, and two, as tests wait."""
    from sojourn.harness.engine.local import capacity
    from sojourn.harness.lab.machine import MEMORY, simulation

    processors = len(os.sched_getaffinity(0))
    if config.option.numprocesses == "logical":
        return processors
    return capacity(processors, simulation.fitting(MEMORY)) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests of a folder below tests/lab in turn: they share runs, or labs in real time, of which one is up.

    Those of `_SHARING` likewise, by file.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = PurePosixPath(nodeid.split("::")[0])
            if _LAB in file.parent.parents:
                return str(file.parent)
            return str(file) if str(file).removeprefix("tests/programs/") in _SHARING else nodeid

    return Scheduler(config, log)


@pytest.fixture
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., None]:
    """Compare the words of a page or a terminal with tests/golden/NAME; `--update-golden` rewrites that file.

    A third argument is a regex for what differs from run to run.
    """
    from tests.snapshots import GOLDEN, page_words, stable

    def check(name: str, text: str, changes: str = "(?!)") -> None:
        words = page_words(text) if name.endswith(".html.txt") else text
        words = stable(words, {re.escape(str(tmp_path)): "TMP", changes: "N"})
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(words)
        assert words == file.read_text(), f"other words than in {file}; `pytest --update-golden` takes these"

    return check
