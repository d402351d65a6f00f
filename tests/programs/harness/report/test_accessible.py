# SPDX-License-Identifier: Apache-2.0
"""Every kind of page, by the rules of axe-core and on a phone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sojourn.harness.matrix.pages import matrix_page
from sojourn.harness.matrix.results import cell_folder, results
from sojourn.harness.report.compare import compare
from sojourn.harness.report.comparison_page import write_comparison
from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.harness.report.index import write_index
from sojourn.harness.report.repetitions import write_summary
from sojourn.harness.report.run_page import write_report
from sojourn.harness.report.trend import history, read_versions, write_history
from sojourn.scoring.schema.scores import Scores
from tests.programs.harness.report.axe.rules import judge
from tests.unit.harness.matrix.pages import test_matrix_page as of_matrix
from tests.unit.harness.test_golden import invalid

folder = of_matrix.folder  # the fixture: a folder with the runs of a matrix
Series = Callable[..., list[Path]]


@pytest.mark.lab
def test_a_runs_page(recorded: Callable[..., Path], scores: Scores, chromium: Any) -> None:
    run = recorded(2)
    shutil.copytree(run, void := run.with_name("void"))
    judge(chromium, {"run": run / "report.html", "invalid run": write_report(void, invalid(scores))})


@pytest.mark.lab
def test_the_pages_of_many_runs(series: Series, tmp_path: Path, chromium: Any) -> None:
    first = series([1, 2, 3], void=[9])[0].parent
    pages: dict[str, Path | str] = {"summary": write_summary(experiments(find_runs([first])), tmp_path / "out")}
    first = first.rename(tmp_path / "a")
    second = series([6, 7, 8], qdisc="dualpi2")[0].parent
    pages["comparison"] = write_comparison(compare(first, second), tmp_path / "compare.html")
    one, other = (find_runs([place])[-1].path for place in (first, second))
    pages["one run against one"] = write_comparison(compare(one, other), tmp_path / "two.html")
    pages["trend"] = write_history(history(read_versions([first, second])), tmp_path / "trend.html")
    series([1, 2], buffer_s=3.0)
    pages["index"] = write_index(second)
    judge(chromium, pages)


@pytest.mark.lab
def test_the_pages_of_a_map(series: Series, chromium: Any) -> None:
    for rtt_us in (40_000, 9_000):
        for rate in (20_000_000, 5_000_000):
            path = {"rtt_us": rtt_us, "rate_down_bps": rate, "rate_up_bps": rate}
            place = series([rtt_us / 10_000], **path)[0].parent
    judge(chromium, {"map": write_index(place)})


@pytest.mark.lab
def test_the_pages_of_a_matrix(folder: Path, chromium: Any) -> None:
    report = matrix_page.write(results(of_matrix.MATRIX, folder, of_matrix.INPUTS))
    cell = cell_folder(folder, of_matrix.MATRIX.cells[0]) / matrix_page.CELL
    judge(chromium, {"matrix": report, "cell": cell})
