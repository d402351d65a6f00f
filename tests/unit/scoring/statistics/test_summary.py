# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sojourn.scoring.statistics.intervals import estimate
from sojourn.scoring.statistics.summary import Figure, PairedContrast


@pytest.mark.parametrize(("runs", "worse"), [(2, None), (4, None), (5, True)])
def test_a_figure_that_most_runs_lack_shows_nothing(runs: int, worse: bool | None) -> None:
    """The latest frames are not known of a picture that stood still all the time."""
    contrast = PairedContrast(**estimate([50.0 + run for run in range(runs)]).model_dump(), mde=None, p_holm=0.01)
    figure = Figure(metric="frame_p99_ms", better="less", contended={}, contrast={"prague": contrast})
    assert contrast.away_from_zero and figure.worse("prague") is worse


@pytest.mark.parametrize(
    ("primary", "p", "p_holm", "worse"),
    [(True, 0.04, None, True), (True, 0.06, None, None), (False, 0.04, 0.05, True), (False, 0.04, 0.051, None)],
)
def test_all_but_the_primary_metric_must_pass_corrected(
    primary: bool, p: float, p_holm: float | None, worse: bool | None
) -> None:
    contrast = PairedContrast(**estimate([5.0, 6, 7, 8, 9]).model_dump(), mde=None, p=p, p_holm=p_holm)
    figure = Figure(metric="rtt_p99_ms", better="less", primary=primary, contended={}, contrast={"prague": contrast})
    assert figure.worse("prague") is worse
