# SPDX-License-Identifier: Apache-2.0
"""Repeated runs of a table are compared with its file of figures, and a table whose sample is the same is stamped."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sojourn.harness.report import repeated
from sojourn.harness.report.experiments import find_runs, is_title
from sojourn.harness.report.paper import figures_of_runs
from sojourn.harness.report.repeated import compared, repeat_samples
from sojourn.harness.report.stamps import PaperError, PaperTable, Stamp, digests
from sojourn.harness.store.loaded import CellRun, LoadedRun
from sojourn.harness.store.manifest import GitState
from sojourn.scoring.schema.scores import SCORES
from tests.refusals import refusal

Series = Callable[..., list[Path]]
TABLE = PaperTable(name="map-here", page="page.md", commands=("map qdisc=pie,codel --repeat=2",), table="map")


@pytest.fixture
def runs(series: Series) -> list[LoadedRun]:
    """Two experiments of two runs each, which differ in the buffer only."""
    made = [*series([1, 2]), *series([3, 4], buffer_s=20.0)]
    return find_runs([made[0].parent])


def test_runs_are_found_by_their_options_though_their_titles_need_less_in_a_sample(runs: list[LoadedRun]) -> None:
    known = figures_of_runs(TABLE, runs)
    assert "(buffer 6" in known and "(buffer 20" in known
    for run in runs:
        alone = figures_of_runs(TABLE, [run])
        assert "buffer" not in alone
        repetition = compared(TABLE, [run], known)
        assert repetition == repeated.Repetition(TABLE, 1, True, [])
        assert repetition.text == "map-here: 1 repeated, has the same scores as in the table"


def test_a_title_is_of_one_experiment(runs: list[LoadedRun]) -> None:
    short = next(run for run in runs if run.options["buffer_s"] == 6)
    name = "video-harm: o2tv 20mbit"
    assert is_title(name, short)
    titles = {
        line.rpartition(",")[0].split(",")[0].strip('"') for line in figures_of_runs(TABLE, runs).splitlines()[1:]
    }
    assert [is_title(title, short) for title in sorted(titles)] == [False, True]
    assert not is_title(f"{name} 40ms", short) and not is_title(f"{name} (buffer)", short)


def test_figures_that_differ_are_named_and_other_bytes_with_the_same_figures_said(runs: list[LoadedRun]) -> None:
    known, one = figures_of_runs(TABLE, runs), runs[:1]
    digest = one[0].manifest.files["scores.json"].sha256[:16]
    same = compared(TABLE, one, known.replace(digest, "0" * 16))
    assert (same.differing, same.what) == ([], "figures")
    changed = known.replace(digest, "0" * 16)
    lines = [line.replace(",480.0,", ",479.0,").replace(",720.0,", ",719.0,") for line in changed.splitlines()]
    (line,) = compared(TABLE, one, "\n".join(lines)).differing
    assert "seed 1: played_height" in line and "719.0, now 720.0" in line


def test_a_run_that_is_invalid_is_not_the_same(series: Series) -> None:
    (void,) = find_runs([series([], void=[9])[0].parent])
    (line,) = compared(TABLE, [void], figures_of_runs(TABLE, [void])).differing
    assert line.endswith(f"seed 1: is invalid: {void.reasons[0]}")


def test_a_run_that_the_table_does_not_have_is_refused(runs: list[LoadedRun]) -> None:
    with refusal(PaperError, "missing", "docs/runs/map-here.csv", "0 runs"):
        compared(TABLE, runs[:1], figures_of_runs(TABLE, runs[1:]))


def test_a_run_without_figures_in_the_table_is_not_counted(
    runs: list[LoadedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = figures_of_runs(TABLE, runs[1:])
    figures = {runs[0].path: known.splitlines(keepends=True)[0]}
    monkeypatch.setattr(
        repeated, "figures_of_runs", lambda table, them: figures.get(them[0].path) or figures_of_runs(table, them)
    )
    assert compared(TABLE, runs[:2], known).runs == 1
    with refusal(PaperError, "missing", "no figures", "--sample"):
        compared(TABLE, runs[:1], known)


PUBLISHED = TABLE.model_copy(update={"table": "published"})


def cell_run(test: str, sha256: str = "a" * 64, **scores: Any) -> LoadedRun:
    entry = SimpleNamespace(sha256=sha256)
    manifest: Any = SimpleNamespace(
        test=test, cell="one", drawn={}, cache=None, seed=1, status="valid", files={SCORES: entry}
    )
    return CellRun(Path(test), {"cell": {"flows": [], "hops": []}, "seed": 1}, manifest, scores)


DELAYS = cell_run("call-delay", probes=[{"p50_ms": 1.0, "p90_ms": 2.0, "p99_ms": 3.0, "p100_ms": 4.0}])
RATES: dict[str, Any] = {
    "flows": [{"d_ss_mbps": 5.0, "goodput_mbps": 4.0, "rtt_mean_ms": 9.0, "window_goodput_mbps": 3.0}]
}


def test_a_run_of_published_tables_has_what_they_show_of_its_matrix() -> None:
    rows = [*csv.DictReader(figures_of_runs(PUBLISHED, [DELAYS, cell_run("one-flow", **RATES)]).splitlines())]
    assert [(row["experiment"], row["metric"], row["value"]) for row in rows] == [
        ("call-delay: one", "probes.0.p50_ms", "1.0"),
        ("call-delay: one", "probes.0.p90_ms", "2.0"),
        ("call-delay: one", "probes.0.p99_ms", "3.0"),
        ("one-flow: one", "flows.0.d_ss_mbps", "5.0"),
        ("one-flow: one", "flows.0.goodput_mbps", "4.0"),
        ("one-flow: one", "flows.0.rtt_mean_ms", "9.0"),
    ]


def test_a_run_of_cells_has_what_pages_quote() -> None:
    quoted: dict[str, Any] = {
        "flows": [{"d_ss_mbps": 5.0, "goodput_mbps": 4.0, "normalised": 1.1, "retrans_share": 0.01}],
        "probes": [{"p50_ms": 1.0, "p90_ms": 2.0, "p99_ms": 3.0}],
        "utilisation": 0.9,
    }
    table = PUBLISHED.model_copy(update={"table": "cells"})
    rows = [*csv.DictReader(figures_of_runs(table, [cell_run("bbr3", **quoted)]).splitlines())]
    found = {row["metric"]: float(row["value"]) for row in rows}
    assert found == {
        "flows.0.d_ss_mbps": 5.0, "flows.0.normalised": 1.1, "flows.0.retrans_share": 0.01, "probes.0.p50_ms": 1.0,
        "probes.0.p99_ms": 3.0, "utilisation": 0.9,
    }  # fmt: skip


def test_published_runs_in_a_file_of_d_ss_alone_have_the_same_scores_or_differ() -> None:
    rates, other = (cell_run("one-flow", digest * 64, **RATES) for digest in "ab")
    old = figures_of_runs(PUBLISHED.model_copy(update={"table": "shares"}), [rates])
    assert old.count("d_ss_mbps") == len(old.splitlines()) - 1 == 1
    assert compared(PUBLISHED, [rates, DELAYS], old) == repeated.Repetition(PUBLISHED, 1, True, [])
    (line,) = compared(PUBLISHED, [other], old).differing
    assert line.startswith("one-flow: one, seed 1: flows.0.goodput_mbps (all): none, now 4.0; ")
    renamed = figures_of_runs(PUBLISHED, [DELAYS]).replace("call-delay: one", "call-delay: other")
    with refusal(PaperError, "missing", "0 runs call-delay: one, seed 1"):
        compared(PUBLISHED, [DELAYS], renamed)


@pytest.fixture
def checkout(runs: list[LoadedRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a table of the runs, whose code has changed since."""
    monkeypatch.setattr(repeated, "CHECKOUT", tmp_path)
    monkeypatch.setattr(repeated, "git_state", lambda: GitState(commit="1234abcd" * 5, dirty=False))

    def runs_of(table: PaperTable, folder: Path, sample: int) -> list[LoadedRun]:
        assert folder.parent == tmp_path / "sample-1234abcd"
        return runs[:sample]

    monkeypatch.setattr(repeated, "runs_of", runs_of)
    monkeypatch.setattr(repeated, "out_of_date", lambda tables: {"map-here": ["kernel"]})
    monkeypatch.setattr(Stamp, "of_runs", lambda runs, parts: Stamp("1234abcd", "kernel 8", parts, ("A CPU",)))
    (tmp_path / "docs/runs").mkdir(parents=True)
    (tmp_path / TABLE.runs_file).write_text(figures_of_runs(TABLE, runs))
    text = Stamp("00000000", "kernel 7", {"kernel": "old"}, ("A CPU",)).markdown(TABLE, 4)
    (tmp_path / "page.md").write_text(f"a table\n\n{text}\n\nmore\n")
    return tmp_path


def test_a_table_whose_sample_is_the_same_is_stamped_with_todays_code(checkout: Path) -> None:
    for sample, says in ((2, "2 of its runs have"), (1, "1 of its runs has")):  # the last sample counts
        assert [it.differing for it in repeat_samples([TABLE], checkout, sample)] == [[]]
        first, _, made, stamp, _, last = (checkout / "page.md").read_text().splitlines()
        assert (first, last) == ("a table", "more")
        assert made.startswith("*[4 runs](docs/runs/map-here.csv); commit 00000000, kernel 7, processor A CPU, scores")
        assert made.endswith(f"repeats it at its commit. Repeated at commit 1234abcd, {says} the same scores.*")
        assert stamp.startswith("<!-- stamp of map-here: ") and set(digests(TABLE).values()) < set(
            re.split("[= ]", stamp)
        )


def test_a_table_of_which_a_run_differs_stays_as_it_is(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, file = (checkout / "page.md").read_text(), checkout / TABLE.runs_file
    text = file.read_text().replace(",720.0,", ",719.0,")
    file.write_text(re.sub(",[0-9a-f]{16},", f",{'0' * 16},", text))
    ((first, *_, last),) = [it.differing for it in repeat_samples([TABLE], checkout, 2)]
    assert "719.0" in first and "processor" not in last
    monkeypatch.setattr(Stamp, "of_runs", lambda runs, parts: Stamp("1234abcd", "kernel 8", parts, ("B CPU",)))
    ((*_, last),) = [it.differing for it in repeat_samples([TABLE], checkout, 2)]
    assert "these runs saw the processor B CPU, the table's another" in last
    assert (checkout / "page.md").read_text() == page


@pytest.mark.parametrize(
    ("changes", "changed", "code", "why"),
    [
        ({"name": "other"}, [], "missing", "docs/runs/other.csv"),
        ({}, ["kernel", "statistics"], "other-version", "because statistics changed"),
        ({}, ["command"], "other-version", "because command changed"),
    ],
)
def test_a_table_that_no_sample_can_judge_is_refused_before_any_run(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], changed: list[str], code: Any, why: str
) -> None:
    monkeypatch.setattr(repeated, "runs_of", lambda *_: pytest.fail("runs were made"))
    monkeypatch.setattr(repeated, "out_of_date", lambda tables: {"map-here": changed})
    table = TABLE.model_copy(update=changes)
    with refusal(PaperError, code, why, f"`sojourn paper {table.name}`"):
        list(repeat_samples([table], checkout, 1))


@pytest.mark.parametrize("code", [None, GitState(commit="1234abcd" * 5, dirty=True)])
def test_code_that_is_not_committed_repeats_nothing(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, code: GitState | None
) -> None:
    monkeypatch.setattr(repeated, "runs_of", lambda *_: pytest.fail("runs were made"))
    monkeypatch.setattr(repeated, "git_state", lambda: code)
    with refusal(PaperError, "conflict", "commit it"):
        list(repeat_samples([TABLE], checkout, 1))
