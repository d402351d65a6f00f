# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix.cells.cell_run import CellJob, perform
from sojourn.harness.matrix.matrix import Column, Matrix, MatrixError
from sojourn.harness.matrix.pages import matrix_page
from sojourn.harness.matrix.pages.compare_runs import compare_with, other_folder, other_runs, scores_by_cell
from sojourn.harness.matrix.results import Results, results, run_folder
from sojourn.harness.report.compare import Comparison, compare
from sojourn.harness.report.comparison_page import MANY, grids, shift_line, write_comparison
from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.harness.report.terminal import print_comparison
from sojourn.harness.store.manifest import read_manifest, reseal, write_manifest
from tests.refusals import refusal
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
    write_manifest(run, manifest.model_copy(update={"versions": {"kernel source": release, "kernel build": inputs}}))
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


RATE = "flow 1, D_SS (Mbit/s)"


def compared(ours: Results, other: Path, cells: tuple[Cell, ...] = MATRIX.cells) -> Comparison:
    return compare_with(other, other_runs(ours.matrix, other, cells), ours, cells)


def test_the_runs_of_each_cell_are_compared_with_those_of_the_same_cell(ours: Results, tmp_path: Path) -> None:
    found = compared(ours, theirs(tmp_path))
    (pair,) = found.pairs
    (rate,) = [it for it in pair.compared if it.label == RATE]
    assert (rate.a.values, rate.b.values) == ((8, 16), (24,))
    assert sorted(found.alone) == ["cell: b: only in B", "cell: c: only in A"]
    output = StringIO()
    print_comparison(found, Console(file=output, width=200))
    for word in ("kernel source", "7.2", "7.3", "kernel build", "cell: c: only in A", RATE, "12 (8 to 16)", "+12"):
        assert word in output.getvalue()


def test_a_figure_of_a_flow_names_its_contender(tmp_path: Path) -> None:
    (one,) = experiments(find_runs([made(tmp_path, A, 1, "old")]))
    assert "flow 1 (cubic), D_SS (Mbit/s)" in [it.label for it in one.figures()]


def test_a_time_that_was_not_reached_is_not_lost_and_its_difference_is_infinite(tmp_path: Path) -> None:
    sides = []
    for name, value in (("a", "Infinity"), ("b", 0.0)):
        sides.append(tmp_path / name)
        for seed in range(1, 6):
            run = made(tmp_path / name, A, seed, "old")
            (run / "scores.json").write_text(json.dumps({"validity": {}, "convergence_s": value}))
            reseal(run, "scores.json")
    sooner, later = ["not reached", "0", "−∞", "−∞"], ["0", "not reached", "+∞", "∞"]
    for place, other, shown in ((*sides, sooner), (*sides[::-1], later)):
        (pair,) = compare(place, other).pairs
        _, grid = grids(pair)
        (row,) = [row.cells for row in grid.rows if row.cells[0].startswith("convergence")]
        assert row[1:5] == shown and grid.heads[-1] == "result"


def test_a_terminal_has_the_means_of_the_runs_before_in_brackets(ours: Results, tmp_path: Path) -> None:
    runs, _ = other_runs(ours.matrix, theirs(tmp_path), MATRIX.cells)
    Console(file=(out := StringIO()), width=100).print(matrix_page.table(ours, scores_by_cell(runs)))
    # By hand: seeds 1 and 2 of cell a have 8 and 16 Mbit/s; cell b has no run before.
    assert [line.split()[1:] for line in out.getvalue().splitlines() if line.split()[:1] in (["a"], ["b"])] == [
        ["24.00", "(12.00)"], ["24.00"]
    ]  # fmt: skip
    assert "in brackets: the runs before" in out.getvalue()


def test_a_shift_that_the_cells_share_is_named_with_its_interval(tmp_path: Path) -> None:
    cells = tuple(cell_runs.cell(f"cell {n}") for n in range(MANY + 1))
    matrix = MATRIX.model_copy(update={"cells": cells})
    sides = [tmp_path / name / "m" for name in ("ours", "alike", "base")]
    for n, cell in enumerate(cells):
        for folder, seed in zip(sides, (20 + n, 10 + (n % 2), 10), strict=True):
            made(folder, cell, seed, folder.parent.name, "7.2")
    mine, alike = (results(matrix, folder, folder.parent.name) for folder in sides[:2])
    found = compared(mine, sides[2], cells)
    (shift,) = [it for it in found.shifts if it.label == RATE]
    assert shift.ratio.value == pytest.approx(math.log(2.3), abs=1e-3) and shift.ratio.away_from_zero
    assert RATE not in shift_line(compared(alike, sides[2], cells).shifts)
    output = StringIO()
    print_comparison(found, Console(file=output, width=200))
    page = write_comparison(found, tmp_path / "comparison.html").read_text()
    for text in (output.getvalue(), page):
        assert "excludes 0: " in text and f"{RATE} whole cell +0.833 (+0." in text
    # Of many cells a terminal has a line each, and what they have in common once.
    assert output.getvalue().count("kernel build") == 1 and output.getvalue().count(RATE) == 1
    assert page.count("<details><summary><h2>") == len(cells)


def test_only_the_cells_that_were_chosen_are_compared(ours: Results, tmp_path: Path) -> None:
    found = compared(ours, theirs(tmp_path), (A,))
    assert len(found.pairs) == 1 and found.alone == ()


def test_the_build_with_most_runs_is_taken_and_the_rest_named(tmp_path: Path) -> None:
    folder = theirs(tmp_path)
    older = made(folder, B, 1, "older still")
    changed = made(folder, B, 2, "old")
    (changed / "flows.csv").write_text((changed / "flows.csv").read_text() + "\n")
    chosen, left = other_runs(MATRIX, folder, MATRIX.cells)
    assert sorted(run.parent.name[0] for run in chosen) == ["a", "a", "c"]
    assert [(it.path, it.state) for it in left] == [(changed, "altered"), (older, "other inputs")]
    for run in chosen:
        (run / "flows.csv").write_text("")
    (older / "flows.csv").write_text("")
    with refusal(MatrixError, "altered", folder):
        other_runs(MATRIX, folder, MATRIX.cells)


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
