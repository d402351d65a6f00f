# SPDX-License-Identifier: Apache-2.0
"""Figures that are infinite: what percentiles make of what never came, and how JSON holds them."""

from __future__ import annotations

import json
from math import inf, nan

import numpy as np
import pytest
from pydantic import BaseModel

from sojourn.scoring.statistics.numbers import LOST, Number, formatted, in_json, nearest_rank, never_came


class Told(BaseModel):
    ms: list[Number | None]


def test_json_stays_strict_and_reads_back() -> None:
    told = Told(ms=[1.23456, inf, -inf, None])
    text = told.model_dump_json()
    assert json.loads(text, parse_constant=pytest.fail) == {"ms": [1.2346, "Infinity", "-Infinity", None]}
    assert Told.model_validate_json(text).ms == [1.2346, inf, -inf, None] == Told(**told.model_dump()).ms
    assert float(in_json(inf)) == inf
    with pytest.raises(ValueError, match="not a number"):
        in_json(nan)


@pytest.mark.parametrize("count", [1, 7, 100, 999])
def test_ranks_are_those_of_numpy_where_nothing_was_lost(count: int) -> None:
    values = np.random.default_rng(count).permutation(count).astype(float)
    for percent in (1, 50, 90, 95, 99, 99.9, 100):
        assert nearest_rank(values, percent) == np.percentile(values, percent, method="inverted_cdf")


def test_lost_ones_are_above_all_others() -> None:
    assert [nearest_rank([1, 2, 3], percent, lost=1) for percent in (50, 75, 76)] == [2, 3, inf]
    assert nearest_rank([], 50, lost=1) == inf and nearest_rank([], 50) is None


def test_what_is_infinite_is_shown_as_lost() -> None:
    assert [formatted(value, ".1f") for value in (1.25, inf, -inf)] == ["1.2", LOST, f"−{LOST}"]


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        ("rtt_p99_ms", "∞ (lost)"), ("frame_p99_ms", "∞ (lost)"), ("probes.0.p99_ms", "∞ (lost)"),
        ("web_fct_p95_s", "unfinished"), ("short.p95_s", "unfinished"), ("convergence_s", "not reached"),
    ],
)  # fmt: skip
def test_what_had_not_ended_is_not_called_lost(metric: str, told: str) -> None:
    assert formatted(inf, ".2f", never_came(metric)) == told
