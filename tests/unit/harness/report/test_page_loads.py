# SPDX-License-Identifier: Apache-2.0
"""Web pages on a report: every load as a row and a line of the timeline, and a headline of what a user waits for."""

from __future__ import annotations

from io import StringIO
from math import inf
from pathlib import Path

import pytest
from rich.console import Console

from sojourn.harness.report.grids import loads_table
from sojourn.harness.report.headline import headline, outcomes, phrase, seen
from sojourn.harness.report.page_loads import loads_panel
from sojourn.harness.report.run_page import page
from sojourn.harness.report.terminal import print_scores
from sojourn.scoring.schema.scores import Harm, PageLoad, Scores
from sojourn.scoring.statistics.harm import PRIMARY

URL = "https://www.site1.test/p1/0.html"
LOADS = [
    PageLoad(t=1, phase="solo", page=1, url=URL, requests=70, bytes=2048, ttfb_ms=60, fcp_ms=250, lcp_ms=900,
             dcl_ms=240, load_ms=1500, had_ms=1800, finished=True),
    PageLoad(t=12, phase="prague", page=1, url=URL, requests=40, bytes=1024, ttfb_ms=70, fcp_ms=400, dcl_ms=390,
             had_ms=8000, finished=False),
    PageLoad(t=20.2, phase=None, page=2, url=URL, requests=0, bytes=0, had_ms=100, finished=False, failed="no answer"),
]  # fmt: skip


@pytest.fixture
def of_pages(scores: Scores) -> Scores:
    """The run of the other tests, as one of pages."""
    values = ({"lcp_p50_ms": 900, "load_p50_ms": 1500}, {"lcp_p50_ms": inf, "load_p50_ms": inf})
    solo, contended = ({**it, "page_loads": 2, "page_loads_unfinished": n} for n, it in enumerate(values))
    assert scores.baseline
    phases = [phase.model_copy(update=contended if phase.contender else solo) for phase in scores.phases]
    same = {"metric": PRIMARY["web"], "better": "less", "solo": 900, "value": inf, "harm": 1}
    contenders = {phase.name: phase.contender for phase in phases if phase.contender}
    harm = [Harm.model_validate({"phase": name, "contender": who, **same}) for name, who in contenders.items()]
    baseline = scores.baseline.model_copy(update=solo)
    update = {"loads": LOADS, "phases": phases, "baseline": baseline, "primary": PRIMARY["web"], "harm": harm}
    return scores.model_copy(update=update)


def test_every_load_has_a_row_and_none_is_dropped(of_pages: Scores, scores: Scores) -> None:
    first, cut, failed = loads_table(of_pages).rows
    assert first.cells[:5] == ["1.0 s", "solo", "1: www.site1.test/p1/0.html", "70", "2"] and first.cells[-1] == "1500"
    assert cut.cells[-1] == "cut off (8000)" and cut.hurt and cut.contended and not first.contended
    assert failed.cells[1] == "between phases" and failed.cells[-1] == "no answer"
    assert not loads_table(scores).rows


def test_a_load_is_a_line_that_rises_with_time() -> None:
    lines = {line.name: [point for point in line.points if point[1] is not None] for line in loads_panel(LOADS).lines}
    assert lines["until FCP"] == [(1, 0), (1.25, 0.25), (12, 0), (12.4, 0.4)]
    assert lines["until LCP"] == [(1.25, 0.25), (1.9, 0.9)] and lines["until loaded"] == [(1.9, 0.9), (2.5, 1.5)]
    (_, cut) = lines["cut off"][:2]
    assert cut == (20, 8)


def test_the_headline_says_what_a_user_waits_for(of_pages: Scores) -> None:
    (outcome,) = outcomes(of_pages)
    said = phrase(outcome)
    assert (
        said == "median LCP unfinished (0.90 s alone); load unfinished (1.50 s alone); 1 of 2 pages not loaded in time"
    )
    assert headline(of_pages, "web").startswith("Web page with prague: median LCP unfinished")
    assert seen(outcome) == "unfinished (0.90 s alone)" and outcome.severity == "severe"


def test_page_and_terminal_show_them(of_pages: Scores, scores: Scores, tmp_path: Path) -> None:
    text = page(tmp_path, of_pages)
    assert "<h2>Page loads</h2>" in text and "cut off (8000)" in text and "page loads: time since" in text
    assert "quality shown" not in text and "<h2>Page loads</h2>" not in page(tmp_path, scores)
    print_scores(of_pages, tmp_path, out := Console(file=StringIO(), width=220))
    assert isinstance(out.file, StringIO) and "cut off" in out.file.getvalue() and "FCP ms" in out.file.getvalue()
