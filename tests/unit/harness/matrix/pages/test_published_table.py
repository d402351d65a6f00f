# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.matrix import Column, Matrix, Reference, matrices
from sojourn.harness.matrix.pages import published_summary, published_table
from sojourn.harness.matrix.pages.published_table import MARKS, PublishedTable, markdown, tables
from sojourn.harness.matrix.results import Results
from sojourn.harness.report.markdown import MarksError, write_between
from sojourn.scoring.reference import published
from tests.refusals import refusal

BEGIN, END = MARKS
RATES = ("flows.0.d_ss_mbps", "flows.1.d_ss_mbps")
PUBLISHED = {"a-fq": (40.0, 2.0), "b-fq": (20.0, 4.0), "c-fq": (10.0, 8.0), "d-pie": (5.0, 5.0)}


def cell(name: str) -> Cell:
    return Cell(name=name, flows=dumbbell.flows(["cubic"], 20), hops=(dumbbell.bottleneck(50, "pie"),), seconds=10)


MATRIX = Matrix(
    name="m",
    title="m",
    cells=tuple(cell(name) for name in PUBLISHED),
    columns=(Column(head="first", metric=RATES[0]), Column(head="second", metric=RATES[1])),
    reference=Reference(
        csv="x.csv",
        published={name: dict(zip(RATES, theirs, strict=True)) for name, theirs in PUBLISHED.items()},
        tolerance={},
    ),
)


def ran(**factors: float) -> Results:
    """Cells whose first flow has the published rate and whose second has so many times that."""
    runs = {
        name: {1: {"flows": [{"d_ss_mbps": first}, {"d_ss_mbps": second * factors[name[0]]}]}}
        for name, (first, second) in PUBLISHED.items()
        if name[0] in factors
    }
    return Results(MATRIX, Path(), runs)


def test_a_row_tells_both_flows_of_the_cells_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [
        PublishedTable("S", "G", "T 1", "m", "-fq$", RATES, "one | draw"),
        PublishedTable("S", "G", "T 2", "m", "-pie$", RATES, ""),
        PublishedTable("R", "G", "plots", "", "", (), "published as plots"),
    ]
    monkeypatch.setattr(published_table, "tables", lambda: asked)
    lines = markdown({"m": ran(a=2, b=2, c=1)}).splitlines()
    heads = [line for line in lines if line.startswith("<details>")]
    assert heads == [f"<details><summary>{head}</summary>" for head in ("S: 2 tables", "R: 1 tables")]
    assert lines.count("</details>") == 2
    first, second = (line for line in lines if line.startswith("| T"))
    # By hand: 4, 8, 8 beside 2, 4, 8; log 2 is 0.69.
    told = ["T 1", "`m`", "first / second", "3 of 3", "1.00 / 0.87", "1.00 / 0.76", "0.00 / 0.69", "0.00 / 0.69"]
    assert [field.strip() for field in re.split(r"(?<!\\)\|", first)[1:9]] == told
    assert first.endswith("`a-fq (x 1)`; `a-fq (x 2)`; one \\| draw |")
    assert second == "| T 2 | `m` | first / second | 0 of 1 | – | – | – | – |  |"
    assert "| plots | – | – | – | – | – | – | – | published as plots |" in lines


def test_the_table_goes_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for text in ("once\n", "twice\n"):
        write_between({MARKS: text}, page)
    assert page.read_text() == f"before\n{BEGIN}\n\ntwice\n\n{END}\nafter\n"
    for without in ("", END + BEGIN, BEGIN):
        page.write_text(without)
        with refusal(MarksError, "missing", "page.md", "`<!-- published"):
            write_between({MARKS: "x"}, page)


def test_looking_makes_no_folder(known: dict[str, Matrix], tmp_path: Path) -> None:
    found = published_table.gather(known, tmp_path)
    assert found and not any(one.runs for one in found.values()) and not list(tmp_path.iterdir())


def test_a_page_that_lacks_one_place_stays_as_it_is(tmp_path: Path) -> None:
    (page := tmp_path / "page.md").write_text(f"{BEGIN}\n{END}\n")
    with refusal(MarksError, "missing", "`<!-- summary"):
        write_between({MARKS: "x", published_summary.MARKS: "y"}, page)
    assert page.read_text() == f"{BEGIN}\n{END}\n"


def test_no_row_of_published_figures_has_more_or_fewer_fields_than_its_head() -> None:
    # A comma in a text that is not quoted would cut it off, as it once did a note.
    for path in published.FOLDER.glob("*.csv"):
        for row in published.rows(path.name):
            assert None not in row and None not in row.values(), (path.name, row)


@pytest.fixture(scope="module")
def known() -> dict[str, Matrix]:
    return matrices()


def test_every_published_table_has_its_matrix_cells_and_figures(known: dict[str, Matrix]) -> None:
    for one in tables():
        assert one.matrix in known or (one.note and not one.matrix), one
        if one.matrix:
            assert any(re.search(one.cells, cell.name) for cell in known[one.matrix].cells), one
        if one.metrics:
            reference = known[one.matrix].reference
            assert reference and set(one.metrics) <= {m for theirs in reference.published.values() for m in theirs}, one
        else:
            assert one.note, one


def test_every_file_of_published_figures_is_in_a_table(known: dict[str, Matrix]) -> None:
    used = (known[one.matrix].reference for one in tables() if one.matrix)
    named = {name for reference in used if reference for name in reference.csv.split(", ")}
    # Those that a matrix reads beside the one that it names, and those that are no table of figures.
    beside = {"call_induced_delay_ccdf.csv", "call_backoff_series.csv", "pantheon_totals.csv", "video_harm.csv"}
    no_figures = {"tables.csv", "table_groups.csv", "bakeoff_scenarios.csv", "dualpi2_compare.csv", "scream_bounds.csv"}
    no_figures |= {f"{name}_matrix.csv" for name in ("variable_rate", "tunnels", "replay")}
    # Those of matrices whose pages are in docs/matrix.md and docs/calls.md: scream2 and scream-bounds.
    elsewhere = {"scream_test_record.csv", "scream_bounds.csv"}
    for path in published.FOLDER.glob("*.csv"):
        assert path.name in named or path.name in beside | no_figures | elsewhere, path.name


def test_the_page_of_experiments_has_every_table() -> None:
    page = (CHECKOUT / "docs" / "experiments.md").read_text()
    inside = page.partition(BEGIN)[2].partition(END)[0]
    missing = [one.table for one in tables() if f"| {one.table} |" not in inside]
    assert not missing, f"made anew by `sojourn paper published-tables`: {missing}"
