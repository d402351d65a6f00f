# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin of soaks: `pytest --soak=PLAN` is `sojourn soak PLAN`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.machine.signals import unignore_sigint


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sojourn-soak", "Sojourn: a night of runs")
    group.addoption("--soak", metavar="PLAN", help="run the cells of a plan for --soak-hours: `sojourn soak PLAN`")
    group.addoption("--soak-hours", type=float, default=10, help="length of a soak in hours (default: 10)")


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Run a soak in place of tests where a plan is given, and return its exit code."""
    if not (plan := config.getoption("soak")):
        return None
    from sojourn.harness.soak.run_plan import run_plan
    from sojourn.harness.soak.serve import DEFAULT

    unignore_sigint()
    return run_plan(Path(plan), config.getoption("soak_hours"), page=DEFAULT)
