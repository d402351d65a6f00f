# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from scoring.intervals import estimate
from scoring.summary import Contrast, Figure


@pytest.mark.parametrize(("runs", "worse"), [(2, None), (4, None), (5, True)])
def test_a_figure_that_most_runs_lack_shows_nothing(runs: int, worse: bool | None) -> None:
    """The latest frames are not known of a picture that stood still all the time."""
    contrast = Contrast(**estimate([50.0 + run for run in range(runs)]).model_dump(), mde=None)
    figure = Figure(metric="frame_p99_ms", better="less", beside={}, contrast={"prague": contrast})
    assert contrast.away_from_zero and figure.worse("prague") is worse
