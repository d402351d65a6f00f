# SPDX-License-Identifier: Apache-2.0
"""The judged speech of a run: its file, and its figures by phase and listener."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

from sojourn.scoring.long_table import label_of
from sojourn.scoring.schema.records import RecordError
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.sound.judged_speech import COLUMNS, SPEECH, by_phase, read_judged_speech, rows_of
from tests.unit.harness.conftest import scores

__all__ = ["scores"]


def judged_speech() -> pl.DataFrame:
    """The client hears three segments alone, and one of two with Prague; the other end hears all, and one alone."""
    rows = [
        (0.5, 4.5, "solo-1", "client", 0, 65.0, 4.5, 4.5),
        (6.3, 4.5, "solo-1", "client", 1, 66.0, 4.4, 4.5),
        (12.0, 4.5, "solo-1", "client", 2, 67.0, 4.6, 4.5),
        (21.0, 4.5, "prague", "client", 3, 400.0, 2.5, 4.5),
        (27.0, 4.5, "prague", "client", 4, None, None, 4.5),
        (0.5, 4.5, "solo-1", "far", 0, 65.0, 4.5, 4.5),
        (21.0, 4.5, "prague", "far", 3, 65.0, 4.5, 4.5),
    ]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def test_its_figures_are_by_phase_and_listener(scores: Scores) -> None:
    scores = scores.model_copy(update={"baseline_windows": [(0.0, 16.5)]})  # to the end of the third segment
    rows = {(row.listener, row.phase): row for row in by_phase(judged_speech(), scores)}
    client = rows["client", "alone"]
    assert (client.speech_segments, client.speech_unheard, client.contender) == (3, 0, None)
    assert (client.mos_lqo_mean, client.mos_lqo_least) == (pytest.approx(4.5), 4.4)
    assert (client.mos_lqo_spoken, client.mos_lqo_lost, client.delay_ms) == (4.5, pytest.approx(0), 66.0)
    prague = rows["client", "prague"]
    assert (prague.contender, prague.speech_segments, prague.speech_unheard) == ("prague", 2, 1)
    assert (prague.mos_lqo_mean, prague.mos_lqo_least, prague.mos_lqo_lost) == (1.75, 1.0, 2.75), "unheard is 1"
    assert prague.delay_ms == 400.0, "the lower of two; the other is infinite"
    assert rows["far", "prague"].speech_unheard == 0 and rows["client", "solo-2"].mos_lqo_mean is None


def test_what_nobody_heard_is_the_worst(scores: Scores) -> None:
    deaf = judged_speech().with_columns(mos_lqo=pl.lit(None, pl.Float64), delay_ms=pl.lit(None, pl.Float64))
    (row,) = (it for it in by_phase(deaf, scores) if (it.listener, it.phase) == ("client", "prague"))
    assert (row.mos_lqo_mean, row.mos_lqo_lost, row.delay_ms) == (1.0, 3.5, math.inf)


def test_the_long_table_has_those_of_the_client_with_labels(scores: Scores) -> None:
    rows = {(row.phase, row.metric): row for row in rows_of(judged_speech(), scores)}
    assert rows["prague", "mos_lqo_lost"].value == 2.75 and rows["solo-1", "speech_segments"].value == 3
    assert ("solo-2", "speech_segments") in rows and ("solo-2", "mos_lqo_mean") not in rows
    assert all(label_of(metric) != metric and row.unit == "" for (_, metric), row in rows.items())


def test_the_file_is_read_as_written(tmp_path: Path) -> None:
    (run := tmp_path / "runs[1]").mkdir()
    assert read_judged_speech(run) is None
    judged_speech().write_csv(run / SPEECH)
    assert judged_speech().equals(read_judged_speech(run))


@pytest.mark.parametrize(
    "line",
    [
        *("1.0,4.5,solo-1,client,0,60,5.5,4.5", "1.0,4.5,solo-1,client,0,,4.5,4.5", "1.0,4.5,solo-1,client,0,60,,4.5"),
        *(
            "NaN,4.5,solo-1,client,0,60,4.5,4.5",
            "1.0,4.5,solo-1,nobody,0,60,4.5,4.5",
            "1.0,x,solo-1,client,0,60,4.5,4.5",
            "1.0,4.5,solo-1,client,0,60,4.5,",
            "1.0,4.5,solo-1,client,16,60,4.5,4.5",
            "1.0,4.5,,client,0,60,4.5,4.5",
            "1.0,4.5,solo-1,client,0,60,4.5,4.5\n1.0,4.5,solo-1,client,1,60,4.5,4.5",
            "1",
        ),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / SPEECH).write_text(f"{','.join(COLUMNS)}\n{line}\n")
    with pytest.raises(RecordError, match=SPEECH):
        read_judged_speech(tmp_path)
