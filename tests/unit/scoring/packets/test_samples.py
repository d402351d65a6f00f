# SPDX-License-Identifier: Apache-2.0
"""Samples of flows from ss lines and packets written by hand."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from sojourn.scoring.packets import samples

T0 = 1_795_273_897.25


def near(value: Any) -> Any:
    """Equal to the 0.24 us that a Unix time in s has as a float."""
    return pytest.approx(value, abs=1e-6)


def line(t: float, flow: int, **told: float | None) -> str:
    state = {
        "rtt_ms": 20.5,
        "minrtt_ms": 20.0,
        "cwnd": 40,
        "retrans": 1,
        "lost": 0,
        "delivered": 900,
        "delivered_ce": 7,
        "delivery_rate_bps": 40_000_000,
    }
    pair = f"10.42.2.20:{40000 + flow}>10.42.1.20:{5201 + flow}"
    return json.dumps({"t": T0 + t, "flow": pair, "bytes_received": 0, **state, **told})


def test_states_are_of_the_sender_by_flow_and_time() -> None:
    told = samples.states([line(1, 1, rtt_ms=33.333), line(0.5, 0, minrtt_ms=None)], 40000, T0)
    assert told.columns == ["t_s", "flow", *samples.STATES]
    assert told["flow"].to_list() == [0, 1] and told["t_s"].to_list() == near([0.5, 1])
    assert told["srtt_us"].to_list() == [20500, 33333] and told["min_rtt_us"].to_list() == [None, 20000]


def test_received_takes_the_flow_from_the_far_end() -> None:
    far = json.dumps({"t": T0 + 2, "flow": "10.44.0.2:5202>10.44.0.1:40001", "bytes_received": 1234})
    assert samples.received([far], 40000, T0).rows() == [(near(2), 1, 1234)]


def test_progress_adds_up() -> None:
    advanced = pl.DataFrame({"t_ns": [round((T0 + t) * 1e9) for t in (0.1, 0.2, 0.3)], "advance": [100, 0, 50]})
    assert samples.progress(advanced, 3, T0).rows() == [
        (near(0.1), 3, 100), (near(0.2), 3, 100), (near(0.3), 3, 150),
    ]  # fmt: skip


def test_a_sample_knows_what_came_before_it_and_ends_with_its_flow() -> None:
    got = pl.DataFrame(
        {"t_s": [0.05, 0.15, 0.95, 0.12, 0.5], "flow": [0, 0, 0, 1, 1], "received_bytes": [10, 30, 90, 5, 6]}
    ).sort("t_s")
    told = samples.states([line(0.18, 0), line(0.6, 0, rtt_ms=30)], 40000, T0)
    rows = samples.sampled(got, told, 0.1, {0: 1.0, 1: 0.4})
    first, second = (rows.filter(flow=n) for n in (0, 1))
    assert first["t_s"].to_list() == near([n / 10 for n in range(1, 11)])
    assert first["received_bytes"].to_list() == [10, *[30] * 8, 90]
    assert first["srtt_us"].to_list() == [None, *[20500] * 4, *[30000] * 5]
    assert second["t_s"].to_list() == near([0.2, 0.3, 0.4])  # nothing before its first byte
    assert second["received_bytes"].to_list() == [5, 5, 5] and second["cwnd"].to_list() == [None] * 3


def test_probes_count_from_the_cells_start() -> None:
    one = pl.DataFrame({"t": [T0 - 1, T0 + 1, T0 + 2], "delay_us": [1.0, 10_500.0, None]})
    two = pl.DataFrame({"t": [T0 + 1.5], "delay_us": [11_000.0]})
    assert samples.probed([one, two], T0, 60).rows() == [
        (near(1), 0, 10_500), (near(1.5), 1, 11_000), (near(2), 0, None),
    ]  # fmt: skip
