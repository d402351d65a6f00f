# SPDX-License-Identifier: Apache-2.0
"""`sojourn paper` from the command line: what it knows, and the exit code of a check."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.harness.report import repeated, stamps


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    done = CliRunner().invoke(app, ["paper", "harm-in-two-queues"])
    assert done.exit_code == 1 and "harm-in-one-queue" in done.stderr


@pytest.mark.parametrize(("old", "code"), [({}, 0), ({"harm-in-one-queue": ["kernel"]}, 1)])
def test_a_check_names_what_has_changed(monkeypatch: pytest.MonkeyPatch, old: dict[str, list[str]], code: int) -> None:
    monkeypatch.setattr(stamps, "out_of_date", lambda tables: old)
    done = CliRunner().invoke(app, ["paper", "--check", "harm-in-one-queue"])
    assert done.exit_code == code
    assert ("README.md: harm-in-one-queue is out of date (kernel)" in done.stdout) == bool(old)


@pytest.mark.parametrize(("differing", "code"), [((), 0), (["here, seed 1: played_height (alone): 720, now 480"], 1)])
def test_a_sample_says_whether_runs_are_the_same(
    monkeypatch: pytest.MonkeyPatch, differing: list[str], code: int, tmp_path: Path
) -> None:
    def repeat(tables: list[stamps.PaperTable], results: Path, sample: int) -> list[repeated.Repetition]:
        assert (results, sample) == (tmp_path, 2)
        return [repeated.Repetition(table, 2, True, differing) for table in tables]

    monkeypatch.setattr(repeated, "repeat_samples", repeat)
    done = CliRunner().invoke(app, ["paper", "harm-map", "--sample=2", f"--results={tmp_path}"])
    same = "harm-map: 2 repeated, have the same scores as in the table\n"
    assert (done.exit_code, done.stdout) == (code, f"harm-map: {differing[0]}\n" if differing else same)


def test_samples_of_all_tables_skip_those_without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str]()
    monkeypatch.setattr(repeated, "has_runs_file", lambda table: table.name != "harm-map")
    monkeypatch.setattr(repeated, "repeat_samples", lambda tables, *_: made.extend(it.name for it in tables) or [])
    done = CliRunner().invoke(app, ["paper", "--sample=2"])
    assert done.exit_code == 0, done.output
    assert done.stdout == "harm-map: skipped: has no docs/runs/harm-map.csv to compare runs with\n"
    assert made and "harm-map" not in made
    CliRunner().invoke(app, ["paper", "harm-map", "--sample=2"])  # which refuses it
    assert made[-1] == "harm-map"


def test_a_sample_is_not_made_by_a_check() -> None:
    done = CliRunner().invoke(app, ["paper", "--check", "--sample=2"])
    assert done.exit_code == 1 and "--sample makes runs" in done.stderr
