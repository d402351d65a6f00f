# SPDX-License-Identifier: Apache-2.0
"""The table of players that watch a broadcast with low latency while the rate changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sojourn.harness.report.experiments import Experiment
from sojourn.harness.report.live_table import FIGURES, live_table, profile
from sojourn.harness.store.loaded import VictimRun
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.statistics.summary import summarise


def options(*steps: tuple[float, float], **others: Any) -> dict[str, Any]:
    """Return options of a run by times (s) and rates (Mbit/s)."""
    rates = [{"at_s": at, "rate_bps": int(mbps * 1e6)} for at, mbps in steps]
    return {"rate_down_bps": rates[0]["rate_bps"], "rate_steps": rates[1:], **others}


def experiment(scores: Scores, latency_s: float, **given: Any) -> Experiment:
    assert scores.baseline
    baseline = scores.baseline.model_copy(update={"live_latency_s": latency_s, "mean_height": 600.0})
    alone = scores.model_copy(update={"phases": [], "baseline": baseline})
    manifest: Any = None
    return Experiment("test", (VictimRun(Path("1"), given, manifest, alone),), summarise({"1": alone}), ("1",))


def test_a_row_is_a_player_behind_a_profile_of_the_rate(scores: Scores) -> None:
    cascade = options((0, 1.2), (30, 0.8))
    groups = [
        experiment(scores, 4.5, **cascade, target_latency_s=6.0, player="dash-lolp"),
        experiment(scores, 3.25, **cascade, target_latency_s=3.0, player="dash-lolp"),
        experiment(scores, 3.5, **cascade, target_latency_s=3.0, player="dash-dynamic"),
        experiment(scores, 9, **cascade, player="dash-dynamic"),
    ]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in live_table(groups).splitlines()]
    assert [row[:3] for row in rows] == [
        ["1.2 for 30 s, 0.8", "3", "dash-dynamic"],
        ["1.2 for 30 s, 0.8", "3", "dash-lolp"],
        ["1.2 for 30 s, 0.8", "6", "dash-lolp"],
    ]
    latency = 3 + FIGURES.index("live_latency_s")
    assert "behind the broadcast" in head[latency]
    assert [row[latency] for row in rows] == ["3.50", "3.25", "4.50"]
    assert {row[3 + FIGURES.index("mean_height")] for row in rows} == {"600"}


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([(0, 1.2)], "1.2"),
        ([(0, 1.2), (10, 0.3), (20, 0.8)], "1.2 for 10 s, 0.3 for 10 s, 0.8"),
        ([(0, 0.5), (5, 1.2), (10, 0.5), (15, 1.2)], "0.5 for 5 s, 1.2 for 5 s, repeated"),
        ([(0, 0.5), (5, 1.2), (10, 0.5), (15, 0.8)], "0.5 for 5 s, 1.2 for 5 s, 0.5 for 5 s, 0.8"),
        ([(0, 0.5), (0.25, 1.2), (5.25, 0.5), (5.5, 1.2)], "0.5 for 0.25 s, 1.2 for 5 s, repeated"),
    ],
)  # fmt: skip
def test_a_profile_has_its_rates_and_a_repeated_pattern_once(steps: list[tuple[float, float]], text: str) -> None:
    assert profile(options(*steps)) == text
