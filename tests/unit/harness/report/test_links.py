# SPDX-License-Identifier: Apache-2.0
"""Every link of every kind of page leads somewhere, whatever runs are called and whichever of them are broken."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.harness.bundle.export import ExportRequest, export_all
from sojourn.harness.cli import app
from sojourn.harness.matrix.pages import matrix_page
from sojourn.harness.matrix.results import results
from sojourn.harness.report.compare import compare
from sojourn.harness.report.comparison_page import write_comparison
from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.harness.report.index import write_index
from sojourn.harness.report.repetitions import write_summary
from sojourn.harness.report.run_page import write_report
from sojourn.harness.report.trend import history, read_versions, write_history
from sojourn.harness.store.manifest import PARTIAL, reseal
from tests.links import broken_links
from tests.unit.harness.matrix.pages import test_matrix_page as of_matrix
from tests.unit.harness.report.test_run_page import Page

folder = of_matrix.folder  # the fixture: a folder with the runs of a matrix
Series = Callable[..., list[Path]]
#: Markup, quotes, a long name, letters from right to left with their override, and an emoji.
HOSTILE = ("<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>'", "n" * 300, "\u202eעברית", "🎥 prague")


def test_index_summary_comparison_trend_and_reports(series: Series, tmp_path: Path) -> None:
    one = series([1, 2, 3, 2, 1], void=[9])[0].parent
    write_index(one)
    write_summary(experiments(find_runs([one])), one / "summary")
    write_index(one)
    one = one.rename(tmp_path / "version 1 #a?%41")
    two = series([6, 7, 8, 7, 6], qdisc="dualpi2")[0].parent
    write_index(two)
    write_comparison(compare(one, two), tmp_path / "compare.html")
    write_history(history(read_versions([one, two])), tmp_path / "trend.html")
    pages = sorted(tmp_path.rglob("*.html"))
    assert {page.name for page in pages} == {"index.html", "report.html", "compare.html", "trend.html"}
    assert {str(page): broken for page in pages if (broken := broken_links(page))} == {}


def test_matrix_and_cells(folder: Path) -> None:
    matrix_page.write(results(of_matrix.MATRIX, folder, of_matrix.INPUTS))
    pages = sorted(folder.rglob("*.html"))
    assert len(pages) > 1 and {str(page): broken for page in pages if (broken := broken_links(page))} == {}


@pytest.mark.parametrize("without_video", [False, True])
def test_the_report_of_an_imported_run(series: Series, tmp_path: Path, without_video: bool) -> None:
    (run,) = series([1])
    (exported,) = export_all([run], tmp_path, ExportRequest(without_video=without_video))
    place = tmp_path / "imported"
    done = CliRunner().invoke(app, ["bundle", "import", str(exported.archive), "--no-rescore", f"--results={place}"])
    assert done.exit_code == 0, done.output
    imported = Path(done.stdout.rstrip("\n"))
    assert (
        imported.parent == place
        and broken_links(imported / "report.html") == []
        and broken_links(place / "index.html") == []
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_and_broken_runs_are_text_on_every_page(series: Series, tmp_path: Path, name: str) -> None:
    damaged, unfinished, *good = series([1, 2, 3, 2], qdisc=name, ladder=name)
    place = damaged.parent
    for run in good:
        text = (run / "scores.json").read_text().replace('"prague"', json.dumps(name))
        (run / "scores.json").write_text(text)
        reseal(run, "scores.json")
        manifest = json.loads((run / "manifest.json").read_text())
        (run / "manifest.json").write_text(json.dumps(manifest | {"cell": name}))
        write_report(run, json.loads(text))
    (damaged / "scores.json").write_text("{")
    unfinished.rename(unfinished.with_name(f"{unfinished.name}{PARTIAL}"))
    called = name.replace("/", "")[:80]
    good[0].rename(good[0].with_name(called))
    runs = sorted(path for path in place.iterdir() if path.name == called or path in good)
    summary = write_summary(experiments(find_runs(runs, whole=False)), place / "summary")
    pages = [index := write_index(place), summary, *(run / "report.html" for run in runs)]
    pages.append(write_comparison(compare(*runs), place / "compare.html"))
    for page in pages:
        assert not re.search(r"<script>alert|<img src=x", page.read_text()) and broken_links(page) == []
        assert name in Page(page).text
    assert called in Page(index).text and "unreadable" in Page(index).text and "interrupted" in Page(index).text
