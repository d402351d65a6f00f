# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from math import inf
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sojourn.hardware.machine.errors import Code
from sojourn.harness.cli import app
from sojourn.harness.report.compare import Compared, Comparison, compare
from sojourn.harness.report.comparison_page import grids, lines, setup_grid, title, verdict, write_comparison
from sojourn.harness.report.experiments import Experiment
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.report.terminal import print_comparison
from sojourn.harness.store.manifest import reseal
from sojourn.scoring.schema.scores import Scores
from tests.refusals import refusal
from tests.unit.harness.report.test_run_page import Page

Series = Callable[..., list[Path]]


def told(found: Comparison, table: str, row: str) -> dict[str, str]:
    """The cells of a row of the only pair's table by their heads."""
    (pair,) = found.pairs
    (grid,) = [grid for grid in grids(pair) if grid.caption == table]
    (cells,) = [it.cells for it in grid.rows if it.cells[0] == row]
    return dict(zip(grid.heads, cells, strict=True))


def two_folders(series: Series, a: dict[str, object], b: dict[str, object]) -> tuple[Path, Path]:
    first = series(**a)[0].parent
    first = first.rename(first.with_name("a"))
    return first, series(**b)[0].parent


def test_without_the_primary_metric_b_is_better_or_worse_only_if_all_rows_agree(series: Series) -> None:
    a, b = two_folders(series, {"stalled": [1, 2, 3, 2, 1]}, {"stalled": [16, 17, 18, 17, 16]})
    (pair,) = compare(a, b).pairs
    assert verdict(pair).startswith("B is worse: effective resolution")
    one, other, *_ = [metric for metric in pair.compared if metric.shown == "worse" and not metric.primary]
    assert verdict(replace(pair, compared=(one, other))).startswith("B is worse: ")
    opposite = replace(other, better="more" if other.better == "less" else "less")
    assert opposite.shown == "better"
    assert verdict(replace(pair, compared=(opposite, one))).startswith("B is different: ")


def test_without_a_common_contender_only_the_baselines_are_compared(series: Series) -> None:
    a, b = two_folders(series, {"stalled": [2]}, {"stalled": [6]})
    (pair,) = compare(a, b).pairs
    sides = [
        replace(one, summary=one.summary.model_copy(update={"contenders": [name], "valid": ["1", "2"]}))
        for one, name in ((pair.a, "prague"), (pair.b, "cubic"))
    ]
    alone = tuple(it for it in pair.compared if not it.who)
    assert verdict(replace(pair, a=sides[0], b=sides[1], compared=alone)) == (
        "No contender in common; only the baselines were compared; "
        "harm in A: 0.60 with prague; harm in B: 0.00 with cubic."
    )


def test_infinite_differences_small_p_and_irrelevant_differences_are_words(series: Series) -> None:
    a, b = two_folders(series, {"stalled": [1, 2, 3, 2, 1]}, {"stalled": [6, 7, 8, 7, 6]})
    found = compare(a, b)
    (pair,) = found.pairs
    row = next(it for it in pair.compared if it.who == "prague" and it.primary and it.family == "measured")
    assert row.shown == "worse"

    def cells(compared: Compared) -> dict[str, str]:
        only = replace(found, pairs=(replace(pair, compared=(compared,)),))
        return told(only, "With prague", f"{row.label}, primary")

    lost = row.less.model_copy(update={"value": -inf, "low": -inf, "high": -1.0, "p": 0.0})
    shown = cells(replace(row, less=lost))
    assert (shown["B − A"], shown["95% interval"], shown["p"]) == ("−∞", "−∞ to -1", "<0.001")
    assert cells(replace(row, less=lost.model_copy(update={"value": inf})))["B − A"] == "+∞"
    assert cells(replace(row, least=1e4))["for the victim"] == "not relevant"


def test_goodput_that_is_the_victims_own_choice_is_not_compared(series: Series) -> None:
    """In both its demand is met: B's goodput is far less, and neither worse nor of any harm."""
    a, b = two_folders(series, {"stalled": [1, 2, 3, 2, 1]}, {"stalled": [16, 17, 18, 17, 16], "qdisc": "dualpi2"})
    for path in (*a.glob("*/scores.json"), *b.glob("*/scores.json")):
        scores = Scores.model_validate_json(path.read_bytes())
        for one in scores.harm:
            if (one.metric, one.contender) == ("victim_mbps", "prague"):
                one.harm, one.demand_met = 0.0, True
        path.write_text(scores.model_dump_json())
        reseal(path.parent, path.name)
    found = compare(a, b)
    harm = told(found, "With prague", "harm: goodput of the victim")
    assert (harm["A"], harm["B"], harm["B − A"], harm["for the victim"]) == (
        "demand met",
        "demand met",
        "–",
        "demand met",
    )
    measured = told(found, "With prague", "goodput of the victim (Mbit/s)")
    assert measured["A"].startswith("0.91") and (measured["p"], measured["for the victim"]) == ("–", "demand met")
    assert told(found, "With cubic", "harm: goodput of the victim")["for the victim"] == "–"
    assert not any("goodput of the victim" in line for line in lines(found.pairs[0]))
    assert lines(found.pairs[0])[0].startswith(
        "A: TV channel with cubic: picture unharmed, but delay P99 rises by 38 ms; effective resolution 720 lines"
    )


def test_folders_stand_beside_each_other_with_interval_and_p(series: Series) -> None:
    a, b = two_folders(
        series, {"stalled": [1, 2, 3, 2, 1], "void": [9]}, {"stalled": [6, 7, 8, 7, 6], "qdisc": "dualpi2"}
    )
    found = compare(a, b)
    row = told(found, "With prague", "stalled (s)")
    # The least p, 2 of 252 ways, times the rows that are not primary: no result of so few runs.
    assert (row["B − A"], row["p"], row["for the victim"]) == ("+5", "0.008", "–") and float(row["p (Holm)"]) > 0.05
    primary = told(found, "With prague", "effective resolution, 0 while stalled (lines), primary")
    assert (primary["p"], primary["p (Holm)"], primary["for the victim"]) == ("0.008", "–", "worse")
    low, high = (float(bound) for bound in row["95% interval"].split(" to "))
    assert 3.5 < low < 4.3 and 5.7 < high < 6.5
    assert told(found, "With cubic", "goodput of the victim (Mbit/s)")["p"] == "1.000"
    assert told(found, "Alone", "goodput of the victim (Mbit/s)")["for the victim"] == "–"
    assert float(told(found, "With prague", "harm: goodput of the victim")["B − A"]) == pytest.approx(5 / 60, abs=0.01)
    assert [row.cells for row in setup_grid(found.pairs[0]).rows] == [["qdisc", "fq_codel flows 1", "dualpi2"]]
    assert title(found.pairs) == "A (qdisc fq_codel flows 1) vs. B (qdisc dualpi2)" and title([]) == "A vs. B"
    assert any(
        line.startswith("Shown worse in B: ") and "effective resolution, 0 while stalled (lines) with prague" in line
        for line in lines(found.pairs[0])
    )
    assert any("only the primary metric can show a difference" in line for line in lines(found.pairs[0]))
    (left,) = found.a.left
    assert (left.state, left.reason) == ("invalid", "jitter: 9 ms, at most 2 ms") and not found.b.left


def test_runs_with_the_same_rigs_are_compared_by_rig(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rigs that differ by more than the queues do: two independent series show nothing."""
    a, b = two_folders(series, {"stalled": [1, 3, 5, 7, 9]}, {"stalled": [1.2, 3.1, 5.3, 7.2, 9.2], "qdisc": "dualpi2"})
    assert told(compare(a, b), "With prague", "stalled (s)")["p"] > "0.8"
    monkeypatch.setattr(Experiment, "drawn", True)
    found = compare(a, b)
    row = told(found, "With prague", "stalled (s)")
    # By hand: 0.2 with a deviation of 0.0707, so t is 6.32 with four degrees of freedom.
    assert (row["B − A"], row["p"]) == ("+0.20", "0.003")
    assert any(line.startswith("Both have the same rigs") for line in lines(found.pairs[0]))
    # Another rig in B, though as many.
    for file in b.glob("*/options.json"):
        options = json.loads(file.read_text())
        if options["seed"] == 5:
            file.write_text(json.dumps(options | {"seed": 6}))
            reseal(file.parent, file.name)
    assert told(compare(a, b), "With prague", "stalled (s)")["p"] > "0.8"


def test_single_runs_have_differences_and_no_more(series: Series) -> None:
    one, other = series([1, 4])
    found = compare(one, other)
    row = told(found, "With prague", "stalled (s)")
    assert row == {"": "stalled (s)", "A": "1", "B": "4", "B − A": "+3"}
    assert [it.cells for it in setup_grid(found.pairs[0]).rows] == [
        ["order of contenders", "cubic, prague", "prague, cubic"]
    ]
    assert any("Too few runs for a result" in line for line in lines(found.pairs[0]))


def test_few_runs_have_a_p_that_says_what_it_can_say(series: Series) -> None:
    found = compare(*two_folders(series, {"stalled": [1, 2]}, {"stalled": [8, 9]}))
    assert told(found, "With prague", "stalled (s)")["p"] == "0.333"
    assert "This number of runs cannot give a p below 0.33, whatever the values." in lines(found.pairs[0])
    assert not any("Shown" in line for line in lines(found.pairs[0]))


def test_of_several_experiments_those_are_compared_of_which_the_same_was_asked(series: Series) -> None:
    series([1, 2])
    a = series([3], buffer_s=12.0)[0].parent
    a = a.rename(a.with_name("a"))
    series([1, 2])
    b = series([3], buffer_s=9.0)[0].parent
    found = compare(a, b)
    assert len(found.pairs) == 1 and len(found.alone) == 2
    assert found.alone[0].endswith("(buffer 12 s): only in A") and found.alone[1].endswith("(buffer 9 s): only in B")


def test_several_experiments_without_a_counterpart_name_the_options_that_differ(series: Series) -> None:
    series([1])
    a = series([2], buffer_s=12.0)[0].parent
    a = a.rename(a.with_name("a"))
    series([1], qdisc="dualpi2")
    b = series([2], qdisc="dualpi2", buffer_s=12.0)[0].parent
    with refusal(ReportError, "conflict", "the same options: qdisc: fq_codel flows 1 in A, dualpi2 in B; give folders"):
        compare(a, b)


def test_what_cannot_be_compared_is_one_line(series: Series, tmp_path: Path) -> None:
    void, valid = series([1], void=[9])
    empty = tmp_path / "empty"
    empty.mkdir()
    a: Path
    b: Path
    why: tuple[Code, *tuple[object, ...]]
    for a, b, why in (
        (void, valid, ("invalid-run", f"{void}: ", f"{void.name} is invalid: jitter: 9 ms, at most 2 ms")),
        (valid, valid, ("conflict", valid)),
        (valid, valid.parent, ("conflict", f"{valid} is a run, {valid.parent} is a folder")),
        (valid.parent, empty, ("not-a-run", f"{empty}: ")),
    ):
        with refusal(ReportError, *why):
            compare(a, b)
    done = CliRunner().invoke(app, ["compare", str(void), str(valid), "-o", str(tmp_path / "x.html")])
    assert done.exit_code == 1 and done.stderr.count("\n") == 1 and not (tmp_path / "x.html").exists()


def test_page_and_terminal_say_the_same(series: Series, tmp_path: Path) -> None:
    a, b = two_folders(
        series, {"stalled": [1, 2, 3, 2, 1], "void": [9]}, {"stalled": [6, 7, 8, 7, 6], "qdisc": "dualpi2"}
    )
    output = StringIO()
    found = compare(a, b)
    print_comparison(found, Console(file=output, width=200))
    page = write_comparison(found, tmp_path / "compare.html")
    read = Page(page)
    assert not re.search(r"https?://|url\(|@import", page.read_text())
    links = [reference for reference in read.references if reference != "#main"]
    assert all((page.parent / reference).exists() for reference in links) and len(links) == 11
    assert page.read_text().count("<circle") >= 10 * 3 * 6
    for text in (output.getvalue(), read.text):
        for word in ("dualpi2", "jitter: 9 ms, at most 2 ms", "0.008", "worse", "permutation test", "With prague"):
            assert word in text


def test_two_boxes_stand_beside_each_other_by_their_names(series: Series) -> None:
    boxes = ({"stalled": [1, 2], "qdisc": None, "box": f"firmware {n}", "lab": "black-box"} for n in (1, 2))
    (pair,) = compare(*two_folders(series, *boxes)).pairs
    assert [row.cells for row in setup_grid(pair).rows] == [["box", "firmware 1", "firmware 2"]]
    assert {metric.who for metric in pair.compared} == {"", "cubic", "prague"}
