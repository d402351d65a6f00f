# SPDX-License-Identifier: Apache-2.0
"""The table of picture quality, on a page and on a terminal."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sojourn.harness.report.grids import quality_table
from sojourn.harness.report.run_page import page
from sojourn.harness.report.terminal import print_quality
from sojourn.scoring.picture.judged import QUALITY
from sojourn.scoring.schema.scores import Scores
from tests.unit.scoring.picture.test_judged import judged


def test_quality_is_by_phase_with_its_harm(scores: Scores) -> None:
    grid = quality_table(judged(), scores)
    assert grid.heads == ["phase", "pictures", "SSIM", "P5", "harm", "VMAF", "P5", "harm"]
    alone, _, prague, last = grid.rows
    assert alone.cells == ["alone", "20", "0.980", "0.980", "–", "98.0", "98.0", "–"] and not alone.contended
    assert prague.cells == ["prague", "20", "0.750", "0.300", "0.23", "75.0", "30.0", "0.23"]
    assert prague.hurt == {2, 4, 5, 7} and prague.contended
    assert last.cells == ["solo-2", "0", *["–"] * 6]


def test_frames_never_shown_are_next_to_a_calls_quality(scores: Scores) -> None:
    phases = [
        it.model_copy(update={"frame_loss": share}) for it, share in zip(scores.phases, (0, 0.25, 0), strict=True)
    ]
    assert scores.baseline is not None
    baseline = scores.baseline.model_copy(update={"frame_loss": 0.01})
    grid = quality_table(judged(vmaf=False), scores.model_copy(update={"phases": phases, "baseline": baseline}))
    assert grid.heads == ["phase", "pictures", "SSIM", "P5", "harm", "never shown"]
    assert [row.cells[-1] for row in grid.rows] == ["1 %", "0 %", "25 %", "0 %"]


def test_it_is_on_the_page_of_a_valid_run_that_has_it(scores: Scores, tmp_path: Path) -> None:
    assert "Picture quality" not in page(tmp_path, scores)
    judged().write_csv(tmp_path / QUALITY)
    text = page(tmp_path, scores)
    assert "<h2>Picture quality</h2>" in text and ">0.750<" in text
    void = {"valid": False, "gates": [{"name": "g", "ok": False, "measured": "9", "limit": "2"}]}
    assert "Picture quality" not in page(tmp_path, scores.model_dump() | {"harm": [], "validity": void})


@pytest.mark.parametrize("width", [60, 160])
def test_a_terminal_prints_it(scores: Scores, width: int) -> None:
    out = StringIO()
    print_quality(judged(), scores, Console(file=out, width=width))
    assert "0.750" in out.getvalue() and "0.23" in out.getvalue()
