# SPDX-License-Identifier: Apache-2.0
"""The table of what calls look like: means over runs with least and most, by queue, sender and contender."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any, cast

from sojourn.harness.report.experiments import Experiment
from sojourn.harness.report.quality_table import FIGURES, quality_table
from sojourn.harness.store.loaded import VictimRun
from sojourn.scoring.long_table import ALONE, LongRow
from sojourn.scoring.schema.scores import Scores


class JudgedRun(VictimRun):
    """A valid run with given figures."""

    @property
    def figures(self) -> list[LongRow]:
        return cast(list[LongRow], self.options["rows"])

    @property
    def reasons(self) -> list[str]:
        return []


def experiment(scores: Scores, sender: str, contender: str, *vmaf: float) -> Experiment:
    def run(value: float) -> JudgedRun:
        rows = [
            LongRow(ALONE, None, "vmaf_mean", 89.0),
            LongRow("solo", None, "vmaf_mean", 1.0),
            LongRow("with", contender, "vmaf_mean", value),
            LongRow("with", contender, "frames_in_time", 0.5),
            LongRow("with", contender, "frame_p50_ms", inf if value < 50 else 80.0),
        ]
        lab = scores.model_copy(update={"lab": {"qdisc_down": "dualpi2"}})
        return JudgedRun(Path("1"), {"call_cc": sender, "rows": rows}, cast(Any, None), lab)

    summary: Any = type("Summary", (), {"contenders": [contender]})
    return Experiment("test", tuple(map(run, vmaf)), summary, ("1",))


def test_a_row_is_a_sender_with_a_contender_and_the_solo_phase_comes_once(scores: Scores) -> None:
    groups = [
        experiment(scores, "scream", "prague", 60, 40),
        experiment(scores, "scream", "cubic", 70),
        experiment(scores, "gcc", "cubic", 88),
    ]
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in quality_table(groups).splitlines()
    ]
    assert [row[:3] for row in rows] == [
        ["`dualpi2`", "gcc", "alone"],
        ["`dualpi2`", "gcc", "cubic"],
        ["`dualpi2`", "scream", "alone"],
        ["`dualpi2`", "scream", "prague"],
        ["`dualpi2`", "scream", "cubic"],
    ]
    vmaf, share, delay = (3 + FIGURES.index(name) for name in ("vmaf_mean", "frames_in_time", "frame_p50_ms"))
    assert [row[vmaf] for row in rows] == ["89", "88", "89", "50 (40 to 60)", "70"]
    assert rows[3][share] == "50" and head[share].endswith("(%)")
    assert rows[3][delay] == "∞ (80 to ∞)"
