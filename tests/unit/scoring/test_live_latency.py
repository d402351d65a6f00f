# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from sojourn.scoring.live_latency import latency_log, latency_within
from sojourn.scoring.schema.scores import Metrics


def sample(t: float, latency_s: float, rate: float = 1.0) -> dict[str, Any]:
    return {"t": t, "event": "latency", "detail": {"latency_s": latency_s, "rate": rate}}


def test_latency_and_speed_are_those_of_the_windows() -> None:
    log = latency_log([sample(11, 4.0, 1.05), {"t": 11, "playing": True}, sample(10, 3.0), sample(12, 9.0)])
    assert log is not None and log["t"].to_list() == [10, 11, 12]
    assert latency_within(log, [(10, 12)]) == {
        "live_latency_s": 3.5, "live_latency_max_s": 4.0, "live_drift_s": 1.0,
        "playback_rate": pytest.approx(1.025), "catch_up_share": 0.5,
    }  # fmt: skip


def test_the_drift_of_windows_is_the_sum_of_theirs() -> None:
    log = latency_log([sample(0, 3), sample(1, 5), sample(10, 9), sample(11, 8.5)])
    assert log is not None
    assert latency_within(log, [(0, 5), (10, 15), (20, 25)])["live_drift_s"] == pytest.approx(1.5)


def test_any_other_victim_has_no_such_field() -> None:
    assert latency_log([{"t": 1.0, "event": "frame", "detail": [0, 240, 1]}]) is None
    log = latency_log([sample(0, 3)])
    assert log is not None and latency_within(log, [(10, 15)]) == {}
    assert not {name for name in Metrics(seconds=1).model_dump() if "live_" in name or "playback" in name}
