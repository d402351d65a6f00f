# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.matrix import Column, Matrix, MatrixError, Reference
from sojourn.harness.matrix.pages import published_summary, published_table
from sojourn.harness.matrix.pages.published_summary import (
    GROUPS,
    MARKS,
    TableGroup,
    formula,
    groups,
    markdown,
    quantities,
    verdict,
)
from sojourn.harness.matrix.pages.published_table import PublishedTable
from sojourn.harness.matrix.results import Results
from sojourn.scoring.reference import published
from sojourn.scoring.reference.published import PublishedComparison, pair

RATE, DELAY, LOST = "flows.0.d_ss_mbps", "flows.0.rtt_mean_ms", "short.p95_s"
PUBLISHED = {"a-fq": 10.0, "b-fq": 20.0, "c-pie": 40.0, "d-pie": 5.0}
SAID = {"source": "S", "group": "by order", "judged_by": "order", "cause": "another path"}
SAID |= {"independent": RATE, "fitted": ""}
FITTED = {"source": "S", "group": "chosen", "judged_by": "size", "cause": "", "independent": RATE, "fitted": "a law"}


def cell(name: str) -> Cell:
    return Cell(name=name, flows=dumbbell.flows(["cubic"], 20), hops=(dumbbell.bottleneck(50, "pie"),), seconds=10)


def asked(monkeypatch: pytest.MonkeyPatch, *rows: tuple[str, str, str]) -> None:
    """Tables of a group, by the cells and the metrics that repeat them."""
    wanted = [
        PublishedTable("S", group, f"T {n}", "m" if metrics else "", cells, tuple(metrics.split()), "as plots")
        for n, (group, cells, metrics) in enumerate(rows)
    ]
    monkeypatch.setattr(published_summary, "tables", lambda: wanted)
    monkeypatch.setattr(published, "rows", lambda name: [SAID, FITTED])


def ran(factors: dict[str, float]) -> dict[str, Results]:
    """Cells whose rate is so many times the published one, and whose delay never came."""
    matrix = Matrix(
        name="m",
        title="m",
        cells=tuple(cell(name) for name in PUBLISHED),
        columns=(Column(head="rate Mbit/s", metric=RATE), Column(head="P95 s", metric=LOST)),
        reference=Reference(
            csv="x.csv", published={c: {RATE: r, LOST: 1.0} for c, r in PUBLISHED.items()}, tolerance={}
        ),
    )
    runs = {
        name: {1: {"flows": [{"d_ss_mbps": PUBLISHED[name] * factor}], "short": {"p95_s": float("inf")}}}
        for name, factor in factors.items()
    }
    return {"m": Results(matrix, Path(), runs)}


def row(text: str, group: str) -> list[str]:
    line = next(line for line in text.splitlines() if re.match(rf"\| {group}(;|<br>)", line))
    return [field.strip().replace("\u00a0", " ") for field in line.strip("|").split("|")]


def test_a_group_tells_each_cell_once_over_all_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, ("G", "", RATE), ("G", "-fq$", f"{RATE} {LOST}"), ("plots", "", ""))
    text = markdown(ran({"a-fq": 1.0, "b-fq": 1.1, "c-pie": 1.2}))
    # By hand: the middle one of 1, 1.1 and 1.2; what never came is not left out in silence, and has no ratio.
    verdicts, cells = "agrees<br>**unexplained**", "3 of 4<br>2, 2 ∞"
    told = ["G; `m`", "rate Mbit/s<br>P95 s", verdicts, cells, "× 1.10<br>–", "1.10<br>–", "1.20<br>∞", "67%<br>0%"]
    # All of 50 Mbit/s, in payload, is 47.82: the middle one of 4.78, 2.39 and 1.20 times the published rates.
    told += ["1.00; 1.00<br>–", "2.39<br>–"]
    assert row(text, "G") == told
    assert row(text, "plots") == ["plots<br>*as plots*", "–", "no figures", *["–"] * 7]
    assert (
        "Of 2 independent published figures **1 agree**, 0 disagree for a suspected cause, **1 are unexplained**, 0 "
        "have not run. Of those that agree, 0 were *fitted*, and in 0 *a formula* without a simulation agrees"
        in text
        and text.count(" 1 are neither.\n") == 1
    )


def test_a_formula_has_an_equal_share_and_a_delay_by_hand_and_is_told_where_it_agrees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two = Cell(name="a", flows=dumbbell.flows(["cubic"] * 2, 20), hops=(dumbbell.bottleneck(50, "pie"),), seconds=10)
    assert formula(two, "flows.1.goodput_mbps") == pytest.approx(23.910, abs=1e-3)
    assert formula(two, DELAY) == pytest.approx(25.969, abs=1e-3)  # four packets of 0.242 ms
    # Cake shapes itself, behind a faster link.
    cake = two.model_copy(update={"hops": (dumbbell.bottleneck(1000, "cake bandwidth 50mbit flowblind"),)})
    assert formula(cake, "flows.1.goodput_mbps") == formula(two, "flows.1.goodput_mbps")
    assert formula(two, LOST) is None and formula(two, "flows.0.retrans") is None
    monkeypatch.setitem(PUBLISHED, "b-fq", 47.0)
    asked(monkeypatch, ("G", "b-fq", RATE))
    text = markdown(ran({"b-fq": 1.05}))
    assert row(text, "G")[-1] == "**1.02**"
    assert "0 were *fitted*, and in 1 *a formula* without" in text and " 0 are neither.\n" in text


def test_what_follows_from_another_figure_is_not_counted_and_a_choice_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, ("chosen", "", f"{RATE} {LOST}"))
    text = markdown(ran({"a-fq": 1.0, "b-fq": 1.1, "c-pie": 1.2}))
    fields = row(text, "chosen")
    assert fields[0] == "chosen; `m`<br>*fitted: a law*" and fields[2] == "agrees, fitted<br>(unexplained)"
    assert "Of 1 independent published figures **1 agree**, 0 disagree" in text
    assert "1 were *fitted*" in text and " 0 are neither.\n" in text


def test_every_remark_is_of_a_group_and_its_metrics() -> None:
    known = {(one.source, one.name): {metric for table in one.tables for metric in table.metrics} for one in groups()}
    for remark in published.rows(GROUPS):
        assert set(remark["independent"].split()) <= known[remark["source"], remark["group"]], remark["group"]
    assert sum(len(one.independent or ()) for one in groups()) == 31


@pytest.mark.parametrize(
    ("factors", "told"),
    [
        ({"a-fq": 3.0, "b-fq": 3.0, "c-pie": 3.0}, "agrees"),  # of another path: only the order
        ({"a-fq": 9.0, "b-fq": 3.0, "c-pie": 1.0}, "disagrees"),
        ({"a-fq": 1.0}, "not run"),  # no order of one
    ],
)
def test_what_only_its_order_judges(monkeypatch: pytest.MonkeyPatch, factors: dict[str, float], told: str) -> None:
    asked(monkeypatch, ("by order", "", RATE))
    fields = row(markdown(ran(factors)), "by order")
    assert fields[2] == told and ("another path" in fields[0]) == (told == "disagrees")


def test_a_verdict_of_something_that_never_came_is_not_agreement() -> None:
    group = TableGroup("S", "G", (), by_order=False, cause="")
    pairs = [pair(f"c{n}", [ours], 1.0, None) for n, ours in enumerate([1.0, float("inf"), float("inf")])]
    assert verdict(PublishedComparison(RATE, None, tuple(pairs)), group) == "unexplained"
    assert verdict(PublishedComparison(RATE, None, tuple(pairs[:1])), group) == "agrees"


def test_the_picture_has_each_quantity_in_one_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, ("G", "", RATE), ("G", "-fq$", f"{RATE} {LOST}"))
    found = ran({"a-fq": 2.0})
    found["m"].runs["a-fq"][1]["short"]["p95_s"] = 0.5
    assert [(q.title, [tuple(one.dots) for one in q.series]) for q in quantities(found)] == [
        ("rates (Mbit/s)", [((10.0, 20.0),)]),
        ("times (ms)", [((1000.0, 500.0),)]),
    ]


def test_runs_of_another_scorer_are_not_shown_as_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = ran({"a-fq": 1.0})
    found["m"].left_out = 3
    monkeypatch.setattr(published_table, "gather", lambda known, results: found)
    (page := tmp_path / "page.md").write_text("")
    with pytest.raises(MatrixError, match="3 finished runs of m are of other inputs or another scorer"):
        published_summary.write({}, tmp_path, page)
    assert not page.read_text()


def test_what_is_said_of_groups_is_of_groups_that_there_are() -> None:
    known = {(one.source, one.name) for one in groups()}
    for said in published.rows(published_summary.GROUPS):
        assert (said["source"], said["group"]) in known and said["judged_by"] in ("size", "order"), said


def test_the_page_of_experiments_begins_with_every_group() -> None:
    page = (CHECKOUT / "docs" / "experiments.md").read_text()
    assert page.index(MARKS[0]) < page.index(published_table.MARKS[0])
    inside = page.partition(MARKS[0])[2].partition(MARKS[1])[0]
    missing = [one.name for one in groups() if f"| {one.name}" not in inside]
    assert not missing, f"made anew by `sojourn paper published-tables`: {missing}"
