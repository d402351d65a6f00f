# SPDX-License-Identifier: Apache-2.0
"""Harm by the paper's formulas, and the solo baseline."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import pytest

from sojourn.scoring.schema.scores import HARMED
from sojourn.scoring.statistics.harm import PRIMARY, harm, recovery_s, solo_windows


@dataclass
class Phase:
    contender: str | None
    start: float
    end: float


def test_the_papers_examples() -> None:
    assert harm(10, 4, "more") == pytest.approx(0.6)
    assert harm(20, 100, "less") == pytest.approx(0.8)


def test_edges() -> None:
    assert harm(0, 5, "less") == 1  # nothing bad alone, something beside
    assert harm(0, 0, "less") == harm(0, 0, "more") == harm(3, 0, "less") == 0
    assert harm(10, 11, "more") == pytest.approx(-0.1)


def test_what_never_comes_is_the_worst() -> None:
    assert harm(22, inf, "less") == 1 and harm(inf, inf, "less") == 0
    with pytest.raises(ValueError, match="infinite baseline"):
        harm(inf, 22, "less")


def test_no_metric_is_of_what_is_not_there_alone() -> None:
    """A stall of one second of forty is little harm, and not all of it; no stall alone is no division by nothing."""
    assert not [name for name in HARMED if any(bad in name for bad in ("stall", "freeze", "drop", "loss"))]
    assert set(PRIMARY.values()) <= set(HARMED)
    assert harm(1, 1 - 1 / 40, HARMED["played_share"]) == pytest.approx(0.025)


def test_the_wake_of_a_contender_is_left_out_of_the_baseline() -> None:
    phases = [
        Phase(None, 0, 20),
        Phase("cubic", 20, 60),
        Phase(None, 60, 80),
        Phase("prague", 80, 120),
        Phase(None, 120, 138),
    ]
    assert solo_windows(phases, after_contender=15) == [(0, 20), (75, 80)]
    assert solo_windows(phases, after_contender=0) == [(0, 20), (60, 80), (120, 138)]


def test_a_call_is_alone_later_than_a_video() -> None:
    phases = [Phase(None, 0, 20), Phase("cubic", 20, 60), Phase(None, 60, 120)]
    starts = [solo_windows(phases, after_contender=recovery_s(call=call))[1][0] for call in (False, True)]
    assert starts == [80, 100]
