# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix.cells.cell_run import CellJob, perform
from sojourn.harness.matrix.matrix import Column, Matrix, MatrixError
from sojourn.harness.matrix.pages.compare_runs import compare_folders, origin, other_folder, other_results
from sojourn.harness.matrix.pages.matrix_page import COMPARISON_TABLE, table, write_comparison
from sojourn.harness.matrix.results import Results, results, run_folder
from sojourn.harness.store.manifest import read_manifest, reseal, write_manifest
from sojourn.scoring.schema.scores import SCORES
from tests.unit.harness.matrix import cell_runs

A, B, C = (cell_runs.cell(name) for name in ("a", "b", "c"))
MATRIX = Matrix(
    name="m",
    title="A matrix",
    cells=(A, B, C),
    window_s=2,
    tail_s=1,
    columns=(Column(head="CUBIC Mbit/s", metric="flows.0.d_ss_mbps"),),
)


def made(folder: Path, cell: Cell, seed: int, inputs: str, release: str = "7.2") -> Path:
    """A finished run whose goodput is `seed` Mbit/s times 8."""
    run = run_folder(folder, cell, seed)
    run.mkdir(parents=True)
    perform(CellJob(cell, seed, MATRIX.window_s, MATRIX.tail_s, inputs, run=cell_runs.run), run)
    manifest = read_manifest(run)
    write_manifest(run, manifest.model_copy(update={"versions": {"release": release, "kernel": inputs}}))
    return run


@pytest.fixture
def ours(tmp_path: Path) -> Results:
    folder = tmp_path / "results" / "m"
    for cell in (A, B):
        made(folder, cell, 3, "new", "7.3")
    return results(MATRIX, folder, "new")


def theirs(tmp_path: Path) -> Path:
    folder = tmp_path / "base" / "m"
    for cell, seed in ((A, 1), (A, 2), (C, 1)):
        made(folder, cell, seed, "old")
    return folder


def test_figures_stand_beside_those_of_the_same_cells(ours: Results, tmp_path: Path) -> None:
    both = compare_folders(ours, other_results(MATRIX, theirs(tmp_path)), MATRIX.cells)
    (rate,) = both.compared.comparisons()
    assert [(pair.cell, pair.ours, pair.theirs, pair.agrees) for pair in rate.pairs] == [("a", 24, 12, False)]
    assert (both.ours_alone, both.theirs_alone, both.redefined) == (("b",), ("c",), ())
    lines = list(both.lines())
    assert "release: 7.3; other: 7.2" in lines and "kernel: new; other: old" in lines
    assert "queues: fq_codel; other: fq_codel" in lines  # the same, and told
    assert "runs: 2 of 2 cells, seeds 3; other: 3 of 2 cells, seeds 1, 2" in lines
    assert any(line.startswith("CUBIC Mbit/s: 1 cell; 0 within 16% of the other;") for line in lines)
    assert "1 cell not in the other folder: b" in lines and "1 cell in the other folder only: c" in lines


def test_a_shift_that_the_cells_share_is_told_with_its_interval(tmp_path: Path) -> None:
    cells = [cell_runs.cell(f"cell {n}") for n in range(6)]
    matrix = MATRIX.model_copy(update={"cells": tuple(cells)})
    sides = [tmp_path / name / "m" for name in ("ours", "alike", "base")]
    for n, cell in enumerate(cells):
        for folder, seed in zip(sides, (20 + n, 10 + (n % 2), 10), strict=True):
            made(folder, cell, seed, "all")
    ours, alike, base = (other_results(matrix, folder) for folder in sides)
    shift = compare_folders(ours, base, cells).shifts()["CUBIC Mbit/s"]
    assert shift.value == pytest.approx(math.log(2.25), abs=1e-3) and shift.away_from_zero
    assert "excludes 0: 1 of 1: CUBIC Mbit/s +0.811 (+0." in "\n".join(compare_folders(ours, base, cells).coverage())
    assert "excludes 0: 0 of 1: none" in "\n".join(compare_folders(alike, base, cells).coverage())


def test_only_the_cells_that_were_chosen_are_compared(ours: Results, tmp_path: Path) -> None:
    both = compare_folders(ours, other_results(MATRIX, theirs(tmp_path)), [A])
    assert (both.ours_alone, both.theirs_alone) == ((), ())
    assert [cell.name for cell in both.compared.cells] == ["a"]


def test_page_and_table_call_them_the_other_figures(ours: Results, tmp_path: Path) -> None:
    both = compare_folders(ours, other_results(MATRIX, theirs(tmp_path)), MATRIX.cells)
    page = write_comparison(both).read_text()
    assert "Against the other figures" in page and "published" not in page.partition("</style>")[2].lower()
    rows = list(csv.DictReader((ours.folder / COMPARISON_TABLE).open()))
    assert [(row["cell"], row["other"], row["ratio"], row["within_tolerance"]) for row in rows] == [
        ("a", "12", "2.0000", "false"), ("b", "", "", ""),
    ]  # fmt: skip
    assert [str(line[1]) for line in table(both.compared).lines[1:]] == ["24.00 (12.00)", "24.00"]


def test_what_has_no_column_gets_one() -> None:
    flows = tuple(A.flows[0].model_copy(update={"from_port": port}) for port in (None, None))
    two = A.model_copy(update={"name": "two", "flows": flows})
    matrix = MATRIX.model_copy(update={"cells": (two,)})
    empty = Results(matrix, Path("here"))
    columns = compare_folders(empty, replace(empty, folder=Path("there")), [two]).compared.matrix.columns
    assert [column.metric for column in columns] == ["flows.0.d_ss_mbps", "flows.1.d_ss_mbps", "jain"]


def test_the_build_with_most_runs_is_taken_and_the_rest_told(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    made(folder, B, 1, "older still")
    changed = made(folder, B, 2, "old")
    (changed / "flows.csv").write_text((changed / "flows.csv").read_text() + "\n")
    other = other_results(MATRIX, folder)
    assert sorted(other.runs) == ["a", "c"]
    assert origin(other)["excluded"] == "2 runs with other inputs, or changed"


def test_scores_of_another_scorer_are_made_anew_and_not_stored(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    run = run_folder(folder, A, 1)
    old = json.dumps({"flows": [{"d_ss_mbps": 99}]})
    (run / SCORES).write_text(old)
    reseal(run, SCORES, scoring="of an earlier version")
    assert other_results(MATRIX, folder).values("a", "flows.0.d_ss_mbps") == [8, 16]
    assert (run / SCORES).read_text() == old


def test_a_results_folder_or_the_matrix_in_it_is_taken(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    own = tmp_path / "results" / "m-linux-7.3"
    assert other_folder(MATRIX, own, tmp_path / "base") == folder
    assert other_folder(MATRIX, own, folder) == folder
    made(tmp_path / "base" / own.name, A, 1, "old")
    assert other_folder(MATRIX, own, tmp_path / "base") == tmp_path / "base" / own.name
    # Of one results folder: that of another kernel beside the usual one.
    assert other_folder(MATRIX, tmp_path / "base" / own.name, tmp_path / "base") == folder


def test_what_cannot_stand_beside_is_refused_by_what_it_has(ours: Results, tmp_path: Path) -> None:
    def refused(place: Path) -> str:
        with pytest.raises(MatrixError) as refusal:
            other_folder(MATRIX, ours.folder, place)
        return str(refusal.value)

    folder = theirs(tmp_path)
    assert "no such folder: " in refused(tmp_path / "nowhere")
    for place in (ours.folder, ours.folder.parent):
        assert re.fullmatch(r"--compare-with: \S+ is the folder of these runs; give another \S+ \S+", refused(place))
    folder.rename(folder.with_name("other"))
    assert refused(folder.parent).endswith("no finished run of matrix m; found other")
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty").endswith("no finished run of matrix m; found none")
    made(tmp_path / "changed" / "m", A.model_copy(update={"seconds": 6}), 1, "old")
    assert "all of its cells have another definition, e.g. 'a': another version" in refused(tmp_path / "changed")


def test_cells_that_are_asked_otherwise_there_are_named(ours: Results, tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    made(folder, B.model_copy(update={"seconds": 6}), 1, "old")
    both = compare_folders(ours, other_results(MATRIX, folder), MATRIX.cells)
    assert both.redefined == ("b",)
    assert "1 cell with another definition there, not compared: b" in both.lines()
