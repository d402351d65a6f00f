# SPDX-License-Identifier: Apache-2.0
"""A host's clock that is set while a run in real time goes on: its phases are as long as they were to be."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sojourn.hardware.machine.place import LOCAL
from sojourn.harness.experiment.recording import _Recording
from sojourn.harness.options.rules import parse_options


@pytest.mark.timeout(60)  # an hour, where a clock that is set decides
@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_a_clock_that_is_set_changes_no_phase_and_no_rate_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    given = {"timeline": "solo:2,solo:2", "rate": "10mbit,1s:5mbit,3s:8mbit", "rate-up": "10mbit", "lab": "virtual"}
    options = parse_options({}, given)
    began, real, sampled, set_rates = time.monotonic(), time.time, list[float](), list[tuple[float, int]]()

    def sample() -> None:
        sampled.append(time.monotonic() - began)
        if len(sampled) == 2:
            monkeypatch.setattr(time, "time", lambda: real() + step_s)

    def set_rate(_: str, rate_bps: int) -> None:
        set_rates.append((time.monotonic() - began, rate_bps))

    path = SimpleNamespace(rates=[], set_rate=set_rate)
    recording = _Recording(
        options, cast(Any, SimpleNamespace(path=tmp_path, check_space=lambda: None)),
        cast(Any, SimpleNamespace(real_time=True, watched={}, client=LOCAL)), cast(Any, path),
        cast(Any, SimpleNamespace(sample=sample, stalls=0, facts={}, begin_phase=list, end_phase=list)),
        cast(Any, SimpleNamespace(phase=lambda _: None, update=lambda **_: None)), ExitStack(),
    )  # fmt: skip
    began = time.monotonic()
    recording.play()
    lasted = time.monotonic() - began
    assert 4 <= lasted < 30 and len(sampled) >= 2
    assert [rate for _, rate in set_rates] == [5_000_000, 8_000_000]
    assert set_rates[0][0] >= 1 and set_rates[1][0] >= 3
    phases = json.loads((tmp_path / "timeline.json").read_text())["phases"]
    assert len(phases) == 2 and all(phase["end"] for phase in phases)
