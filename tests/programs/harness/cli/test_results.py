# SPDX-License-Identifier: Apache-2.0
"""`sojourn ls`, `open` and `rm`: what they list, show and delete, and what they never touch."""

from __future__ import annotations

import json
import os
import shutil
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sojourn.hardware.machine.files import lock, opened
from sojourn.harness.cli import app
from sojourn.harness.report.index import write_index
from sojourn.harness.report.run_list import listed
from sojourn.harness.store.manifest import StoreError, read_manifest, reseal, write_manifest
from sojourn.harness.store.removal import removable, remove
from sojourn.harness.store.runs import RunDirectory, RunStore
from sojourn.scoring.schema.scores import Scores
from tests.programs.harness.cli.test_one_door import made, void
from tests.refusals import refusal
from tests.unit.harness.report.test_run_page import Page


def ask(*words: object, answer: str = "") -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], input=answer, env={"COLUMNS": "300"})


@pytest.fixture
def results(scores: Scores, tmp_path: Path) -> Path:
    """A valid run, an invalid one, one that was cut off, and a series of two."""
    results = tmp_path / "results"
    made(results, scores)
    void(made(results, scores))
    with suppress(KeyboardInterrupt), RunStore(results).create("video-harm", "pie 4mbit") as run:
        (run.path / "player.jsonl").write_text("{}")
        raise KeyboardInterrupt
    for _ in range(2):
        made(results / "map", scores)
    return results


@contextmanager
def running(results: Path) -> Iterator[RunDirectory]:
    """A run that another process records, as far as its lock says."""
    run = RunStore(results).create("video-harm", "cake 9mbit")
    (run.path / "player.jsonl").write_text("{}")
    yield run
    run.commit()


def test_every_run_is_a_line_with_what_it_is_how_it_ended_and_the_harm(results: Path) -> None:
    with running(results):
        runs = {run.state: run for run in listed(results)}
        text = ask("ls", results).stdout
    assert set(runs) == {"valid", "invalid", "interrupted", "running", "2 runs"}
    assert runs["valid"].harm and not runs["invalid"].harm and "jitter" in runs["invalid"].reason
    assert "with prague" in runs["valid"].experiment and runs["interrupted"].experiment == "video-harm: pie 4mbit"
    assert runs["interrupted"].reason == "stopped by Ctrl-C" and runs["2 runs"].path == results / "map"
    lines = text.splitlines()
    assert len(lines) == 1 + len(runs)
    for run in runs.values():
        (line,) = (line for line in lines if line.startswith(run.path.name + " "))
        assert run.date in line and run.state in line and run.experiment in line


@pytest.mark.parametrize("columns", ["60", "80", "300"])
def test_the_list_fits_its_terminal_and_names_every_folder_whole(results: Path, columns: str) -> None:
    text = CliRunner().invoke(app, ["ls", str(results)], env={"COLUMNS": columns}).stdout
    assert max(len(line.rstrip()) for line in text.splitlines()) <= int(columns) and "…" not in text
    runs = listed(results)
    assert all(run.path.name in text and run.date in text for run in runs)
    assert len(text.splitlines()) == 1 + len(runs) or columns != "300"


def test_runs_that_differ_in_an_option_only_show_it(tmp_path: Path, scores: Scores) -> None:
    for seconds in (6, 12):
        run = made(tmp_path / "map", scores)
        options = json.loads((run / "options.json").read_text()) | {"buffer_s": seconds}
        (run / "options.json").write_text(json.dumps(options))
        reseal(run, "options.json")
    assert [it.experiment.partition(" (")[2] for it in listed(tmp_path / "map")] == ["buffer 6)", "buffer 12)"]
    shutil.rmtree(run)
    assert [it.state for it in listed(tmp_path)] == ["1 run"]


def test_a_run_has_one_state_in_the_list_and_in_the_index(tmp_path: Path) -> None:
    with suppress(KeyboardInterrupt), RunStore(tmp_path).create("video-harm", "pie") as run:
        (run.path / "player.jsonl").write_text("{}")
        raise KeyboardInterrupt
    with running(tmp_path):
        assert {it.state for it in listed(tmp_path)} == {"interrupted", "running"}
        assert "2 runs: 0 valid, 1 running, 1 interrupted" in Page(write_index(tmp_path)).text


def test_a_run_that_lacks_its_scores_only_is_not_scored(tmp_path: Path) -> None:
    with suppress(KeyboardInterrupt), RunStore(tmp_path).create("video-harm", "pie") as run:
        (run.path / "player.jsonl").write_text("{}")
        run.recorded()
        raise KeyboardInterrupt
    assert [it.state for it in listed(tmp_path)] == ["not scored"]


def test_the_list_is_filtered_by_words_and_is_json(results: Path) -> None:
    rows = json.loads(ask("ls", results, "-k", "PIE interrupted", "--json").stdout)
    assert [(row["state"], row["bytes"] > 0) for row in rows] == [("interrupted", True)]
    nothing = ask("ls", results, "-k", "nosuch")
    assert nothing.exit_code == 0 and "no run has all words of 'nosuch'" in nothing.stdout
    assert len(json.loads(ask("ls", results / "map", "--json").stdout)) == 2
    (results / "empty").mkdir()
    refused = ask("ls", results / "empty")
    assert refused.exit_code == 1 and "no run in it" in refused.stderr


@pytest.mark.parametrize("command", ["ls", "report", "summary", "compare", "open", "ecn", "rescore", "rerun", "data"])
def test_a_missing_path_is_reported_as_missing(command: str, tmp_path: Path) -> None:
    for place in (tmp_path / "absent", tmp_path / "absent/run"):
        refused = ask(command, *[place, tmp_path][: 1 + (command == "compare")])
        assert refused.exit_code == 1 and refused.stderr == f"sojourn: {place}: no such file or folder\n"


@pytest.mark.parametrize("command", ["ecn", "data", "film", "rescore", "rerun", "figure"])
def test_a_folder_of_runs_is_refused_with_the_name_of_a_run_in_it(command: str, results: Path) -> None:
    run, _ = runs = sorted((results / "map").iterdir())
    folder = ask(command, results / "map").stderr
    assert folder == f"sojourn: {run.parent}: a folder with {len(runs)} runs; name one of them, such as {run}\n"
    file = ask(command, run / "scores.json").stderr
    assert file == f"sojourn: {run / 'scores.json'}: a file of a run; give its folder {run}\n"


def test_a_run_is_not_listed_as_a_folder(results: Path) -> None:
    (run, _) = (results / "map").iterdir()
    assert "a run; give its folder of results" in ask("ls", run).stderr


def test_a_page_is_opened_where_there_is_a_display_and_named_otherwise(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = list[str]()
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    run = next(it.path for it in listed(results) if it.state == "valid")
    (run / "report.html").unlink()
    assert ask("open", run).stdout.strip() == str(run / "report.html") and not opened
    assert (run / "report.html").is_file() and read_manifest(run).files["report.html"].size > 1000
    (run / "report.html").write_text("<p>harm: none</p>")
    assert ask("open", run).exit_code == 0 and "harm: none</p>" not in (run / "report.html").read_text()
    monkeypatch.setenv("DISPLAY", ":1")
    assert ask("open", results).stdout.strip() == str(results / "index.html")
    assert opened == [(results / "index.html").resolve().as_uri()] and (results / "index.html").is_file()
    cut = next(it.path for it in listed(results) if it.state == "interrupted")
    refused = ask("open", cut)
    assert refused.exit_code == 1 and "not finished" in refused.stderr and len(opened) == 1


def test_a_run_is_deleted_after_a_question_and_the_index_forgets_it(results: Path) -> None:
    run = next(it.path for it in listed(results) if it.state == "valid")
    ask("report", results)
    assert f'"{run.name}/report.html"' in (results / "index.html").read_text()
    for answer in ("", "n\n"):
        kept = ask("rm", run, answer=answer)
        assert kept.exit_code == 1 and "nothing was deleted" in kept.stdout and run.exists()
    gone = ask("rm", run, answer="y\n")
    assert gone.exit_code == 0 and "1 run, " in gone.stdout and not run.exists()
    assert f'"{run.name}/report.html"' not in (results / "index.html").read_text()
    assert not [*results.glob(f"{run.name}.*"), *results.glob("*.old")]


def test_several_runs_and_a_series_are_deleted_at_once(results: Path) -> None:
    places = [*(it.path for it in listed(results)), *(results / "map").iterdir()]
    done = ask("rm", "--yes", *places)
    assert done.exit_code == 0 and f"{results / 'map'}: 2 runs, " in done.stdout
    assert not any(results.iterdir())


def test_whatever_is_no_run_and_no_series_stays_and_so_does_all_else(results: Path, tmp_path: Path) -> None:
    run = next(it.path for it in listed(results) if it.state == "valid")
    (photos := tmp_path / "photos").mkdir()
    (photos / "a.jpg").touch()
    (results / "notes.txt").write_text("mine")
    for place, code in ((photos, "not-a-run"), (results, "unexpected-file"), (photos / "a.jpg", "not-a-folder")):
        with refusal(StoreError, code, place):
            removable(place)
        refused = ask("rm", "--yes", run, place)
        assert refused.exit_code == 1 and refused.stderr.startswith("sojourn: ") and run.exists()
    (results / "notes.txt").unlink()
    shutil.rmtree(results / "map")
    assert removable(results) == 3
    shutil.copytree(photos, results / "photos")
    with refusal(StoreError, "unexpected-file", results / "photos"):
        removable(results)


def test_links_are_neither_followed_nor_taken_for_runs(results: Path, tmp_path: Path) -> None:
    run = next(it.path for it in listed(results) if it.state == "valid")
    (link := tmp_path / "link").symlink_to(run)
    with refusal(StoreError, "not-a-file", link):
        removable(link)
    (outside := tmp_path / "outside").mkdir()
    (outside / "mine").touch()
    (run / "logs").mkdir()
    (run / "logs/away").symlink_to(outside)
    remove(run)
    assert (outside / "mine").exists() and not run.exists()


def test_what_is_in_use_stays(results: Path, scores: Scores) -> None:
    with running(results) as run:
        for place in (run.path,):
            with refusal(StoreError, "in-use", place):
                removable(place)
        assert ask("rm", "--yes", run.path).exit_code == 1 and run.path.exists()
    for locked in (results / "map", next((results / "map").iterdir())):  # a map holds its folder, a run its own
        held = os.open(locked, os.O_RDONLY)
        lock(held)
        with refusal(StoreError, "in-use", locked):
            removable(results / "map")
        os.close(held)
    (batch := results / "night").mkdir()
    made(batch, scores)
    (batch / "soak.json").write_text("{}")
    (batch / "attempts").mkdir()
    with (results / ".lock").open("w") as file:
        lock(file.fileno())
        with refusal(StoreError, "in-use", batch):
            removable(batch)
    assert removable(batch) == 1


def test_what_comes_into_use_while_the_question_stands_stays(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = next(it.path for it in listed(results) if it.state == "valid")
    with opened(run) as held:
        monkeypatch.setattr("sojourn.harness.cli.results._ask", lambda _: lock(held))
        refused = ask("rm", run)
    assert refused.exit_code == 1 and "is in use by another process" in refused.stderr and run.exists()


def test_a_matrix_is_a_series(scores: Scores, tmp_path: Path) -> None:
    matrix = tmp_path / "s6"
    for seed in (1, 2):
        run = made(tmp_path / "made", scores)
        (matrix / "cell-a1b2").mkdir(parents=True, exist_ok=True)
        run.rename(matrix / f"cell-a1b2/seed-{seed}")
    for name in ("report.html", "table.csv"):
        (matrix / name).touch()
    (matrix / "cell-a1b2/cell.html").touch()
    assert removable(matrix) == 2 and [it.state for it in listed(tmp_path)] == ["2 runs"]
    for seed, day in ((1, 3), (2, 2)):  # the days of a copied matrix, not that of the copy
        run = matrix / f"cell-a1b2/seed-{seed}"
        write_manifest(run, read_manifest(run).model_copy(update={"created": day * 86_400.0}))
    assert [it.created for it in listed(tmp_path)] == [3 * 86_400.0]
    for foreign in ("notes.csv", "cell-a1b2/seed-1.tar.zst", "cell-a1b2/seed-1/notes.txt"):
        (matrix / foreign).touch()
        refused = ask("rm", "--yes", matrix)
        assert refused.exit_code == 1 and f"{matrix / foreign}: is no file of Sojourn" in refused.stderr
        (matrix / foreign).unlink()
    remove(matrix)
    assert not matrix.exists()


def test_a_deleted_run_is_on_no_page_of_its_matrix(scores: Scores, tmp_path: Path) -> None:
    matrix = tmp_path / "s6"
    runs = [matrix / f"cell-{cell}/seed-{seed}" for cell in ("a", "b") for seed in (1, 2)]
    pages = [matrix / name for name in ("report.html", "table.csv", "cell-a/cell.html", "cell-b/cell.html")]
    for run in runs:
        run.parent.mkdir(parents=True, exist_ok=True)
        made(tmp_path / "made", scores).rename(run)
    for page in pages:
        page.write_text("<title>Cells · Sojourn</title>")
    write_index(matrix)
    (tmp_path / "index.html").write_text("<title>My site</title>")
    done = ask("rm", "--yes", runs[0])
    assert done.exit_code == 0 and f"{pages[0]}: removed, because it showed deleted runs" in done.stdout
    assert [page for page in pages if page.exists()] == [pages[3]] and runs[1].exists()
    assert "cell-a/seed-1" not in (matrix / "index.html").read_text()
    assert ask("rm", "--yes", runs[1]).exit_code == 0 and not runs[1].parent.exists()
    assert "cell-a/seed-2" not in (matrix / "index.html").read_text()
    pages[0].write_text("<title>Cells · Sojourn</title>")
    assert ask("rm", "--yes", matrix / "cell-b").exit_code == 0 and not pages[0].exists()
    assert ask("rm", "--yes", matrix).exit_code == 1 and (tmp_path / "index.html").exists()
