# SPDX-License-Identifier: Apache-2.0
"""Charts of rate, marks and queue in steps of 100 ms."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.matrix import Chart, Matrix
from sojourn.harness.matrix.pages.interval_charts import interval_charts, interval_panels
from sojourn.harness.matrix.results import Results, run_folder
from sojourn.scoring.schema.columns import INTERVALS

CELL = Cell(
    name="a", flows=dumbbell.flows(["program_mine", "cubic"], 20), hops=(dumbbell.bottleneck(20, "dualpi2"),), seconds=2
)
CHART = Chart(
    title="over 100 ms", unit="Mbit/s", series={"sender": "flows.0", "contender": "flows.1"}, cells={"": "a"},
    intervals=True,
)  # fmt: skip


def table() -> pl.DataFrame:
    """The first flow has 4 of 8 packets marked and 3 ms of queue; the second sends nothing in its second interval."""
    rows = [
        (0.0, 0, 8.0, 8, 8, 4, 4, 0, 3.0, 4.0), (0.0, 1, 2.0, 4, 0, 0, 0, 0, 1.0, 1.0),
        (0.1, 0, 9.0, 8, 8, 0, 0, 0, 0.5, 1.0), (0.1, 1, 0.0, 0, 0, 0, 0, 0, None, None),
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=INTERVALS, orient="row")


def test_the_panels_have_each_flow_at_the_middle_of_its_intervals() -> None:
    rate, marks, queue = interval_panels(table(), {0: "who-other-1", 1: "who-cubic"})
    assert [panel.lines[0].kind for panel in (rate, marks, queue)] == ["who-other-1"] * 3
    assert rate.lines[0].points == [(pytest.approx(0.05), 8.0), (pytest.approx(0.15), 9.0)]
    assert [y for _, y in marks.lines[0].points] == [50.0, 0.0]
    assert [y for _, y in marks.lines[1].points] == [0.0, None]
    assert [y for _, y in queue.lines[1].points] == [1.0, None]
    assert rate.top >= 9.0 and queue.top >= 3.0


def test_the_first_seed_that_has_run_is_drawn_with_its_contenders(tmp_path: Path) -> None:
    matrix = Matrix(name="m", title="m", cells=(CELL,), charts=(CHART,))
    finished = Results(matrix, tmp_path)
    assert list(interval_charts(finished, CHART)) == []
    for seed in (2, 7):
        folder = run_folder(tmp_path, CELL, seed)
        folder.mkdir(parents=True)
        table().with_columns(pl.col("mbps") * seed).write_csv(folder / "intervals.csv")
        finished.take(CELL, seed, folder, {})
    (drawn,) = interval_charts(finished, CHART)
    assert [name for name, _ in drawn["key"]] == ["sender (program_mine)", "contender (CUBIC)"]
    assert "packets marked CE (%)" in drawn["svg"] and "time in the queue (ms)" in drawn["svg"]
