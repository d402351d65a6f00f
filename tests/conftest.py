# SPDX-License-Identifier: Apache-2.0
"""Which tests may run side by side, and how many."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import Any

import pytest

_LAB = PurePosixPath("tests/lab")


def pytest_addoption(parser: pytest.Parser) -> None:
    nightly = parser.getgroup("sojourn-nightly", "Sojourn: how much the tests of `-m nightly` do")
    nightly.addoption("--soak-minutes", type=float, default=60, help="length of the soak with faults (default: 60)")
    nightly.addoption("--lab-starts", type=int, default=500, help="starts and stops of the virtual APU (default: 500)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One worker a processor, as far as each finds the memory for a machine; and one, as tests in real time wait."""
    from harness.experiment.seeds import places
    from harness.experiment.simulated import MEMORY, simulation

    return places(len(os.sched_getaffinity(0)), simulation.fitting(MEMORY)) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests of a folder below tests/lab in turn: they share runs, or labs in real time, of which one is up."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder = PurePosixPath(nodeid.split("::")[0]).parent
            return str(folder) if _LAB in folder.parents else nodeid

    return Scheduler(config, log)
