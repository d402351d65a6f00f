# SPDX-License-Identifier: Apache-2.0
"""The notebooks of docs/examples, executed cell by cell on prepared runs: what they show is what the runs hold."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sojourn
from sojourn.bottleneck.cell import Cell
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.matrix.cells.cell_run import CellJob, perform
from sojourn.harness.matrix.matrix import matrices
from sojourn.harness.matrix.results import run_folder
from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.scoring.reference import published
from tests.programs.scoring.conftest import recorded
from tests.programs.scoring.test_changed_run import again
from tests.unit.harness.conftest import Series, scores, series

__all__ = ["recorded", "scores", "series"]  # fixtures of other tests

NOTEBOOKS = sorted((CHECKOUT / "docs" / "examples").glob("*.ipynb"))


class Executed:
    """A notebook's names after its last cell, and what its cells show: the values of their last expressions."""

    def __init__(self, name: str) -> None:
        self.names: dict[str, Any] = {}
        self.shown: list[Any] = []
        for n, cell in enumerate(cells(CHECKOUT / "docs" / "examples" / name)):
            if cell["cell_type"] == "code":
                self._execute("".join(cell["source"]), f"{name}, cell {n}")

    def _execute(self, source: str, where: str) -> None:
        body = ast.parse(source, where).body
        last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), where, "exec"), self.names)
        if last:
            self.shown.append(eval(compile(last, where, "eval"), self.names))

    def drawings(self) -> list[str]:
        return [it._repr_svg_() for it in self.shown if isinstance(it, sojourn.Drawing)]


def cells(notebook: Path) -> list[dict[str, Any]]:
    document = json.loads(notebook.read_text())
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    return list(document["cells"])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory, and this checkout as `sojourn`."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setitem(sys.modules, "sojourn", sojourn)


def test_there_are_three_without_outputs() -> None:
    assert [notebook.name for notebook in NOTEBOOKS] == ["first-run.ipynb", "many-runs.ipynb", "published-delay.ipynb"]
    for cell in (cell for notebook in NOTEBOOKS for cell in cells(notebook) if cell["cell_type"] == "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None


def test_the_tables_of_a_run(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUN", str(run := again(recorded, tmp_path / "results")))
    done = Executed("first-run.ipynb")
    figures = done.names["figures"]
    assert figures.filter(phase="prague").select("stall_s", "victim_mbps").row(0) == (
        pytest.approx(2.75, abs=0.1), pytest.approx(2, abs=0.1),
    )  # fmt: skip
    medians = dict(done.names["induced"].group_by("load").agg(pl.median("induced_ms")).rows())
    assert medians == {"alone": pytest.approx(0.15, abs=0.02), "prague": pytest.approx(14.85, abs=0.3)}
    timeline, delays = done.drawings()
    assert "quality shown" in timeline and ">prague<" in delays
    assert set(done.names["waits"]["of"]) == {"victim", "contender"}
    assert repr(done.shown[0]).startswith(f"<{run.name}: phases, ")


def test_many_runs_have_the_intervals_of_their_summary(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    series([4, 5, 6], qdisc="dualpi2")
    paths = series([1, 2, 3, 4, 5.5, 6])
    monkeypatch.setenv("RESULTS", str(paths[0].parent))
    done = Executed("many-runs.ipynb")
    assert done.names["options"] == ["qdisc_down"]
    expected = {}
    for one in experiments(find_runs([paths[0].parent])):
        stalled = one.summary.figure("stall_s")
        assert stalled
        for contender, it in stalled.contended.items():
            expected[one.title, contender] = (it.n, it.value, it.low, it.high)
    assert {(row[0], row[1]): row[2:] for row in done.names["table"].rows()} == expected
    (box,) = done.drawings()
    assert "stalled (s)" in box and 'class="box' in box
    assert Path("stalls.pdf").read_bytes().startswith(b"%PDF-")


def test_the_published_delay_is_that_of_the_same_queue_and_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = next(it for it in matrices()["call-delay"].cells if it.name == "call-in-L-10mbit")
    job = CellJob(cell, 1, window_s=40, tail_s=20, inputs="one", run=as_published, matrix="call-delay")
    run = run_folder(tmp_path / "results", cell, 1)
    run.mkdir(parents=True)
    perform(job, run)
    monkeypatch.setenv("RUN", str(run))
    done = Executed("published-delay.ipynb")
    table = {row[0]: row[1:] for row in done.names["table"].rows()}
    assert set(table) == {"measured", "published, 2.5 Mbit/s call", "published, 25 Mbit/s call"}
    # A probe as delayed as the published one agrees with it, up to the steps of its curve.
    assert table["measured"] == pytest.approx(table["published, 2.5 Mbit/s call"], rel=0.05)
    (drawing,) = done.drawings()
    assert drawing.count('<path class="line c') == 2 * 3 and "Induced delay at 10 Mbit/s in dualpi2_l" in drawing


def as_published(cell: Cell, folder: Path, *, seed: int, **_: Any) -> None:
    """Stand in for a run: a probe with the published distribution of round trips, 100 per second."""
    (probe,) = cell.probes
    name = "bi_dualpi2_l_2.5mbps_10mbps"
    curve = [row for row in published.rows("call_induced_delay_ccdf.csv") if row["run"] == name]
    shares, trips = (np.array([float(row[column]) for row in curve]) for column in ("percent_above", "rtt_ms"))
    (idle,) = (row for row in published.rows("call_induced_delay.csv") if row["run"] == "noload")
    sent = np.arange(round(cell.seconds * 100))
    above = 100 * (1 - (np.random.default_rng(seed).permutation(sent) + 0.5) / len(sent))
    delays = np.interp(above, shares[::-1], trips[::-1]) - float(idle["p50_ms"]) + probe.rtt_us / 1e3
    pl.DataFrame({"t_s": sent / 100, "probe": 0, "delay_us": delays * 1e3}).write_csv(folder / "probes.csv")


def test_a_notebook_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUN", "nowhere")
    with pytest.raises(RuntimeError, match="nowhere"):
        Executed("first-run.ipynb")
