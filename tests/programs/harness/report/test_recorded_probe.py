# SPDX-License-Identifier: Apache-2.0
"""A recorded run shows its probe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sojourn.harness.report.timeline import panels
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.time_series import run_series


def test_the_probe_gets_a_panel_when_it_is_there(recorded: Callable[..., Path], scores: Scores) -> None:
    view = run_series(scores, recorded(1))
    (probe,) = view.rtts
    assert probe.name == "" and probe.largest[0] == (0.25, 24) and probe.p50[0] == (0.25, 22)
    assert [value for at, value in probe.p50 if 10 <= at < 20] == [60] * 20
    assert [panel.title.split(":")[0] for panel in panels(view)] == [
        "goodput (Mbit/s)",
        "quality shown",
        "round-trip time of the probe (ms)",
    ]
