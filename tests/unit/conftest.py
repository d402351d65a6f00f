# SPDX-License-Identifier: Apache-2.0
"""Tests here start no program: those that do are in tests/programs."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from sojourn.harness.store.manifest import GitState

_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}
_running: list[str] = []


def _refuse(event: str, args: Any) -> None:
    if _running and event in _STARTS:
        raise AssertionError(f"{_running[0]} starts a program ({event}): it belongs in tests/programs")


sys.addaudithook(_refuse)


@pytest.fixture(autouse=True)
def pure(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Refuse programs while the test runs; a run's commit is told without git."""
    monkeypatch.setattr("sojourn.harness.store.runs.git_state", lambda *_: GitState(commit="0" * 40, dirty=False))
    _running.append(request.node.name)
    yield
    _running.clear()


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shuffle and resample runs 1000 times, not 10 000 times, where it is done for dozens of figures."""
    for module in ("intervals", "trend"):
        monkeypatch.setattr(f"sojourn.scoring.statistics.{module}.RESAMPLES", 1000)
