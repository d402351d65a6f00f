# SPDX-License-Identifier: Apache-2.0
"""The judged pictures of a run: their file, and mean, P5 and harm by phase."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sojourn.scoring.long_table import label_of
from sojourn.scoring.picture.judged import COLUMNS, QUALITY, PhaseQuality, by_phase, read_judged, rows_of
from sojourn.scoring.schema.records import RecordError
from sojourn.scoring.schema.scores import Scores
from tests.unit.harness.conftest import scores

__all__ = ["scores"]


def judged(*, vmaf: bool = True) -> pl.DataFrame:
    """20 pictures alone, 20 with Prague of which two are bad, and none in the last phase."""
    ssim = [0.98] * 20 + [0.80] * 18 + [0.30] * 2
    return pl.DataFrame(
        {
            "t": [n / 2 for n in range(40)],
            "phase": ["solo-1"] * 20 + ["prague"] * 20,
            "height": [None] * 40,
            "frame": list(range(40)),
            "ssim": ssim,
            "vmaf": [100 * value for value in ssim] if vmaf else [None] * 40,
        },
        schema=COLUMNS,
    )


def test_mean_p5_and_harm_are_by_phase(scores: Scores) -> None:
    alone, first, prague, last = by_phase(judged(), scores)
    assert (alone.phase, alone.pictures, alone.ssim_mean, alone.harm) == ("alone", 20, pytest.approx(0.98), {})
    assert first == PhaseQuality("solo-1", None, 20, *(getattr(alone, name) for name in FIGURES), harm={})
    assert prague.ssim_mean == pytest.approx(0.75) and prague.ssim_p5 == 0.3 and prague.vmaf_p5 == 30
    assert prague.harm == {"ssim_mean": pytest.approx(0.23 / 0.98), "vmaf_mean": pytest.approx(0.23 / 0.98)}
    assert (last.phase, last.pictures, last.ssim_mean, last.harm) == ("solo-2", 0, None, {})


FIGURES = "ssim_mean", "ssim_p5", "vmaf_mean", "vmaf_p5"


def test_without_vmaf_and_without_a_baseline_there_is_no_figure_of_it(scores: Scores) -> None:
    phases = by_phase(judged(vmaf=False), scores)
    assert [row.vmaf_mean for row in phases] == [None] * 4 and phases[2].harm.keys() == {"ssim_mean"}
    first, prague, _ = by_phase(judged(), scores.model_copy(update={"baseline_windows": []}))
    assert (first.phase, prague.harm) == ("solo-1", {})


def test_the_long_table_has_its_figures_with_labels(scores: Scores) -> None:
    rows = {(row.phase, row.metric): row for row in rows_of(judged(vmaf=False), scores)}
    assert rows["prague", "harm.ssim_mean"].value == pytest.approx(0.23 / 0.98)
    assert rows["prague", "ssim_p5"].contender == "prague" and rows["alone", "pictures"].value == 20
    assert ("solo-2", "pictures") in rows and ("solo-2", "ssim_mean") not in rows and ("alone", "vmaf_p5") not in rows
    assert all(label_of(metric) != metric and row.unit == "" for (_, metric), row in rows.items())


def test_the_file_is_read_as_written(tmp_path: Path) -> None:
    (run := tmp_path / "runs[1]").mkdir()
    assert read_judged(run) is None
    judged(vmaf=False).write_csv(run / QUALITY)
    assert judged(vmaf=False).equals(read_judged(run))


@pytest.mark.parametrize(
    "line",
    ["1.0,solo-1,,3,1.5,", "1.0,solo-1,,3,,", "NaN,solo-1,,3,0.9,", "1.0,solo-1,,3,0.9,900", "1.0,solo-1,,x,0.9,", "1"],
)
def test_a_damaged_file_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / QUALITY).write_text(f"{','.join(COLUMNS)}\n{line}\n")
    with pytest.raises(RecordError, match=QUALITY):
        read_judged(tmp_path)
