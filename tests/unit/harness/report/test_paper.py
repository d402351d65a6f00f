# SPDX-License-Identifier: Apache-2.0
"""The runs of tables of README and docs are made, continued or refused, and their pages written."""

from __future__ import annotations

import csv
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sojourn.harness.report import paper
from sojourn.harness.report.experiments import find_runs
from sojourn.harness.report.markdown import MarksError
from sojourn.harness.report.paper import stamped
from sojourn.harness.report.stamps import (
    PaperError,
    PaperTable,
    Stamp,
)
from sojourn.scoring.schema import scores
from tests.refusals import refusal

Series = Callable[..., list[Path]]
TABLE = PaperTable(name="harm-here", page="page.md", commands=("harm --repeat=6",), table="harm")


@pytest.mark.parametrize(
    ("form", "command", "ends", "again"),
    [
        ("map", "map rtt=10ms,20ms", [1], None),
        ("overview", "harm --scenario=access-line", [1], None),
        ("media", "matrix l4s-media", [2], None),
        ("calls", "map qdisc=pfifo,dualpi2 --service=room", [1], None),
        ("dips", "map rate-up=8mbit --service=room", [1], None),
        ("published", "matrix s1", [2], None),
        ("film", "harm", [0, 1], "interrupted"),
        ("harm", "harm --repeat=6", [1], "interrupted"),
    ],
)
def test_a_series_that_was_interrupted_is_continued_or_refused(
    form: Any, command: str, ends: list[int], again: str | None, series: Series, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    further = {"picture": "a.gif", "part": (0, 1)} if form == "film" else {}
    table = PaperTable(name="one", page="p.md", commands=(command,) * len(ends), table=form, **further)
    folder, left = series([1])[0].parent, list(ends)
    shutil.rmtree(tmp_path / "made", ignore_errors=True)

    def run(words: list[str]) -> int:
        assert words[3:] == [*command.split(), f"--results={tmp_path / 'made'}"]
        shutil.copytree(folder, tmp_path / "made", dirs_exist_ok=True)
        return left.pop(0)

    monkeypatch.setattr(paper, "_ended", run)
    with refusal(PaperError, "failed", command, f"ended with {ends[-1]}"):
        paper.runs_of(table, tmp_path / "made")
    left = [0] * len(ends)
    if again:
        with refusal(PaperError, "conflict", str(tmp_path / "made"), again):
            paper.runs_of(table, tmp_path / "made")
    else:
        paper.runs_of(table, tmp_path / "made")
        assert not left
        paper.runs_of(table, tmp_path / "made")  # done: no command


def test_runs_of_another_scorer_are_kept_and_scored_again(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    table = PaperTable(name="one", page="p.md", commands=("map rtt=10ms,20ms",), table="map")
    runs, made = series([1, 2]), list[list[str]]()
    (folder := runs[0].parent).joinpath("done").touch()
    _, before = paper.place_of_runs(table, folder)
    monkeypatch.setattr(paper, "_ended", lambda words: made.append(words[3:]) or 0)
    paper.runs_of(table, folder)
    assert not made
    monkeypatch.setattr(scores, "LAST_CHANGE", "9.9")
    monkeypatch.setattr(paper, "SCORER", "9.9")
    assert paper.place_of_runs(table, folder)[1] == before
    paper.runs_of(table, folder)
    assert sorted(made) == [["rescore", "--write", str(run)] for run in sorted(runs)]
    monkeypatch.setattr(paper, "_ended", lambda words: 1)
    with refusal(PaperError, "failed", str(sorted(runs)[0]), "ended with 1"):
        paper.runs_of(table, folder)


def test_a_matrix_of_which_a_run_failed_has_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = PaperTable(name="one", page="p.md", commands=("matrix s1",), table="published")
    (tmp_path / "made").mkdir()
    monkeypatch.setattr(paper, "_ended", lambda words: 1)
    with refusal(PaperError, "failed", "sojourn matrix s1", "ended with 1"):
        paper.runs_of(table, tmp_path / "made")
    assert not (tmp_path / "made/done").exists()


def test_a_film_of_two_queues_has_both(series: Series) -> None:
    runs = find_runs([series([1])[0].parent])
    film = PaperTable(name="one", page="p.md", commands=("harm", "harm"), table="film", picture="a.gif", part=(0, 1))
    with refusal(PaperError, "missing", "1 of 2 commands"):
        stamped(film, runs, {})


def test_too_few_valid_runs_make_no_table(series: Series) -> None:
    runs: list[Any] = find_runs([series([1, 2, 3, 4, 5], void=[9])[0].parent])
    with refusal(PaperError, "failed", "fewer than 6 valid runs"):
        stamped(TABLE, runs, {})


def test_a_picture_of_a_run_has_only_its_stamp_in_the_page(
    series: Series, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = series([1])
    table = PaperTable(name="one", page="p.md", commands=("harm",), table="picture", picture="one.png")
    (tmp_path / "p.md").write_text("\n".join(["![a picture](one.png)", *table.marks]))
    monkeypatch.setattr(paper, "CHECKOUT", tmp_path)
    monkeypatch.setattr(paper, "runs_of", lambda table, folder: find_runs([run.parent]))
    monkeypatch.setattr(Stamp, "of_runs", lambda runs, parts: Stamp("1234abcd", "kernel", parts))
    figures = tmp_path / "docs/runs/one.csv"
    assert list(paper.renew([table], tmp_path, lambda *_: ())) == [tmp_path / "one.png", figures, tmp_path / "p.md"]
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "p.md").read_text()
    assert "*[1 run](docs/runs/one.csv); commit 1234abcd" in page and "|" not in page
    head, *rows = csv.reader(figures.read_text().splitlines())
    assert head[1:3] == ["scores", "seed"] and {row[5] for row in rows} == {"played_height", "harm.played_height"}
    digest = hashlib.sha256((run / "scores.json").read_bytes()).hexdigest()
    assert all(digest.startswith(row[1]) and row[2] == "1" for row in rows) and len(rows[0][1]) == 16


def test_a_page_without_marks_is_refused_before_any_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "CHECKOUT", tmp_path)
    monkeypatch.setattr(paper, "runs_of", lambda table, folder: pytest.fail("runs were made"))
    (tmp_path / "page.md").write_text("no marks")
    table = PaperTable(name="one", page="page.md", commands=("harm",), table="harm")
    with refusal(MarksError, "missing", "page.md", "one"):
        list(paper.renew([table], tmp_path, lambda *_: ()))


def test_the_published_tables_have_a_folder_per_matrix(series: Callable[..., list[Path]], tmp_path: Path) -> None:
    for run, matrix in zip(series([1, 2]), ("s1", "s2"), strict=True):
        (folder := tmp_path / "tables" / matrix).mkdir(parents=True)
        run.rename(folder / run.name)
    (tmp_path / "tables" / "done").touch()
    table = PaperTable(name="tables", page="page.md", commands=("matrix s1", "matrix s2"), table="published")
    assert [run.path.parent.name for run in paper.runs_of(table, tmp_path / "tables")] == ["s1", "s2"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("matrix s1 -k 20ms", ["matrix", "s1", "-k", "20ms"]),
        ("map rtt=10ms,20ms --repeat=2", ["map", "rtt=10ms,20ms", "--repeat=2"]),
        ("harm --contenders=cubic --repeat=12",
         ["map", "service=youtube", "--contenders=cubic", "--repeat=12", "--recorder=ffmpeg"]),
        ("harm --service=call --recorder=obs", ["map", "service=call", "--recorder=obs"]),
        ("harm --scenario=access-line --recorder=none", ["map", "--scenario=access-line", "--recorder=none"]),
    ],
)  # fmt: skip
def test_a_sample_of_runs_is_made_by_a_map_of_the_same_options(
    command: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert paper.as_map(command) == words
    made = list[list[str]]()
    monkeypatch.setattr(paper, "_ended", lambda words: made.append(words) or 0)
    monkeypatch.setattr(paper, "find_runs", lambda places: places)
    table = PaperTable(name="one", page="p.md", commands=(command,), table="harm")
    (tmp_path / "runs").mkdir()
    for _ in range(2):  # it resumes
        assert paper.runs_of(table, tmp_path / "runs", sample=2) == [tmp_path / "runs"]
        assert made.pop()[3:] == [*words, "--sample=2", f"--results={tmp_path / 'runs'}"]
