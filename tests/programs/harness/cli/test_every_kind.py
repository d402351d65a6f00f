# SPDX-License-Identifier: Apache-2.0
"""Each command that reads runs, for each kind of run: it reads the run, or refuses it with a code and one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from sojourn.apps.standins import scenes
from sojourn.harness.bundle.export import export
from sojourn.harness.cli import app
from sojourn.harness.cli.common import renew_report
from sojourn.harness.matrix.cells import cell_run, rerun
from sojourn.harness.matrix.results import run_folder
from sojourn.harness.store.manifest import prune, read_manifest, reseal
from tests.programs.scoring.conftest import recorded
from tests.programs.scoring.test_changed_run import again
from tests.unit.harness.matrix import cell_runs

__all__ = ["recorded"]  # a fixture of the scorers' tests


@pytest.fixture(scope="module")
def pair(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs with a victim as `sojourn harm` keeps them, to be copied."""
    return [again(recorded, tmp_path_factory.mktemp("run"), seed=str(seed)) for seed in (1, 2)]


def victims_run(place: Path, pair: list[Path], seed: int) -> Path:
    return Path(shutil.copytree(pair[seed - 1], place / "results" / pair[seed - 1].name))


def soaks_run(place: Path, pair: list[Path], seed: int) -> Path:
    """A run of a night from which the recording was removed to make room."""
    run = victims_run(place, pair, seed)
    prune(run, "screen.mp4")
    return run


def cells_run(place: Path, _: object, seed: int) -> Path:
    job = cell_runs.job("a", seed, matrix="m")
    run = run_folder(place / "results", job.cell, seed)
    run.mkdir(parents=True)
    cell_run.perform(job, run)
    return run


KINDS: dict[str, Callable[[Path, list[Path], int], Path]] = {
    "victim's": victims_run, "soak's": soaks_run, "cell's": cells_run,
}  # fmt: skip


def verdict(run: Path, other: Path) -> list[object]:
    line = "flows.0.d_ss_mbps > 1" if "seed-" in run.name else "stalls >= 0"
    (file := run.parent / "thresholds.toml").write_text(f"thresholds = {json.dumps([line])}\n")
    return ["verdict", run, f"--thresholds={file}"]


def bundled(run: Path, other: Path) -> list[object]:
    file = export(run, run.parent / "run.tar.zst")
    return ["bundle", "import", file, f"--results={run.parent / 'imported'}"]


def folder(run: Path) -> Path:
    """The results folder, or a matrix's, in which a run lies."""
    return run.parent.parent if run.name.startswith("seed-") else run.parent


READERS: dict[str, Callable[[Path, Path], list[object]]] = {
    "report": lambda run, _: ["report", run],
    "report of a folder": lambda run, _: ["report", folder(run)],
    "summary": lambda run, other: ["summary", run, other, "-o", run.parent / "out"],
    "summary of a folder": lambda run, _: ["summary", folder(run), "-o", run.parent / "out"],
    "verdict": verdict,
    "compare": lambda run, other: ["compare", run, other, "-o", run.parent / "compare.html"],
    "compare of folders": lambda run, other: ["compare", folder(run), folder(other), "-o", run.parent / "compare.html"],
    "trend": lambda run, other: ["trend", folder(run), folder(other), "-o", run.parent / "trend.html"],
    "data": lambda run, _: ["data", run, "-o", run.parent / "out"],
    "figure": lambda run, _: ["figure", run, "-o", run.parent / "figure.svg"],
    "figure of delays": lambda run, _: ["figure", run, "--kind=ccdf", "-o", run.parent / "figure.svg"],
    "figure of runs": lambda run, _: [
        "figure",
        folder(run),
        "--kind=box",
        "-o",
        run.parent / "figure.svg",
        *(["--metric=flows.0.d_ss_mbps"] if "seed-" in run.name else []),
    ],
    "mos": lambda run, _: ["mos", run, "--inputs", run.parent / "inputs"],
    "quality": lambda run, _: ["quality", run],
    "ecn": lambda run, _: ["ecn", run],
    "film": lambda run, _: ["film", run, "--from=9", "--to=10", "-o", run.parent / "film.mp4"],
    "rescore": lambda run, _: ["rescore", run, "--write"],
    "rerun": lambda run, _: ["rerun", run],
    "bundle export": lambda run, _: ["bundle", "export", run, "-o", run.parent / "packed"],
    "bundle export of no names": lambda run, _: ["bundle", "export", run, "-o", run.parent / "packed", "--anonymise"],
    "bundle verify": lambda run, _: ["bundle", "verify", run],
    "bundle import": bundled,
    "ls": lambda run, _: ["ls", folder(run)],
    "open": lambda run, _: ["open", run],
    "open of a folder": lambda run, _: ["open", folder(run)],
    "rm": lambda run, _: ["rm", "--yes", run],
    "flent": lambda run, _: ["flent", run, "--to", run.parent / "flent"],
}
CELLS = ["cell's"]
#: What is refused, and the code of the refusal; empty where its class has none.
REFUSED: dict[tuple[str, str], str] = {
    **{(reader, kind): "no-victim" for reader in ("figure", "figure of delays", "mos", "quality", "film")
       for kind in CELLS},
    **{("ecn", kind): "missing" for kind in CELLS},  # without captures
    **{("bundle export of no names", kind): "" for kind in CELLS},
    **{("flent", kind): "no-cell" for kind in ("victim's", "soak's")},
    ("mos", "victim's"): "", ("mos", "soak's"): "",  # without the reference software
    **{(reader, "soak's"): "" for reader in ("quality", "film", "rescore", "verdict")},  # without the recording
}  # fmt: skip
#: Of two versions with one run each nothing can be told.
TOO_FEW = {"trend": 3}
#: Commands that read no run, or all runs of a matrix or a night.
OTHERS = {"build", "doctor", "harm", "map", "matrix", "paper", "profile"}


@pytest.fixture
def place(tmp_path: Path, pair: list[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for runs; whatever repeats one has stand-ins for machines, and the film repeats ten small pictures."""
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "cache"))

    def of_cell(job: cell_run.CellJob, run: Path) -> None:
        cell_run.perform(replace(job, run=cell_runs.run), run)

    painted = scenes.frames

    def film(seconds: int, fps: int) -> Iterator[scenes.Image]:
        ten = [
            cv2.resize(image, (426, 240), interpolation=cv2.INTER_AREA) for image in islice(painted(seconds, fps), 10)
        ]
        return islice(cycle(ten), seconds * fps)

    def of_victim(_test: str, options: Any, *_: object) -> SimpleNamespace:
        return SimpleNamespace(path=Path(shutil.copytree(pair[options.seed - 1], tmp_path / "again")))

    monkeypatch.setattr(rerun, "perform", of_cell)
    monkeypatch.setattr(rerun, "SimulatedInputs", lambda *_: lambda: "one")
    monkeypatch.setattr("sojourn.harness.experiment.rerun.perform", of_victim)
    monkeypatch.setattr(scenes, "frames", film)
    return tmp_path


def ask(words: list[object]) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "300"})


def code_of(done: Result) -> str:
    """The code of the error that ended a command."""
    assert done.exception and done.exception.__context__
    return str(getattr(done.exception.__context__.__cause__, "code", ""))


def test_each_command_that_reads_runs_is_here() -> None:
    def names(command: Any, above: str = "") -> Iterator[str]:
        for name, below in command.commands.items():
            yield from names(below, f"{above}{name} ") if getattr(below, "commands", None) else [f"{above}{name}"]

    known = {name.partition(" of ")[0] for name in READERS} | OTHERS
    found = {it for it in names(typer.main.get_command(app)) if not it.startswith(("soak", "hardware", "lab "))}
    assert found == known


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", READERS)
def test_each_reader_accepts_each_kind_or_refuses_it_with_a_reason(
    place: Path, pair: list[Path], reader: str, kind: str
) -> None:
    run, other = (KINDS[kind](place / name, pair, seed) for seed, name in enumerate(("a", "b"), 1))
    done = ask(READERS[reader](run, other))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    if (reader, kind) not in REFUSED:
        assert done.exit_code == TOO_FEW.get(reader, 0), done.output
        return
    assert done.exit_code == (4 if reader == "verdict" else 1) and not done.stdout, done.output
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("sojourn: "))
    assert done.stderr.strip().endswith(line), "more than one line"
    if code := REFUSED[reader, kind]:
        assert code_of(done) == code and str(run) in line and "`sojourn " in line


def test_a_cells_page_is_in_its_manifest(place: Path) -> None:
    run = cells_run(place, None, 1)
    page = renew_report(run)
    assert "CUBIC 20 ms" in page.read_text() and page.name in read_manifest(run).files


def test_the_figures_of_cells_are_in_one_summary(place: Path) -> None:
    for seed in (1, 2):
        cells_run(place, None, seed)
    done = ask(["summary", place / "results", "--json", "-o", place / "out"])
    (one,) = json.loads(done.stdout)
    rate = next(it for it in one["measured"] if it["metric"] == "flows.0.d_ss_mbps")
    assert one["title"] == "m: a" and rate["alone"]["values"] == [8, 16] and len(one["valid"]) == 2


def test_a_repeated_cell_has_the_same_bytes(place: Path) -> None:
    run = cells_run(place, None, 3)
    done = ask(["rerun", run, "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == 0 and told["other"] == told["missing"] == [] and "flows.csv" in told["same"], told
    assert read_manifest(Path(told["run"])).command_line[:2] == ["sojourn", "rerun"]


def test_an_edited_score_of_a_cell_is_found(place: Path) -> None:
    run = cells_run(place, None, 1)
    scores = json.loads((run / "scores.json").read_text())
    scores["flows"][0]["d_ss_mbps"] = 99
    (run / "scores.json").write_text(json.dumps(scores))
    for reader in ("report", "summary", "data", "bundle verify"):
        done = ask(READERS[reader](run, run))
        assert done.exit_code == 1 and "scores.json" in done.stderr
    reseal(run, "scores.json")
    done = ask(["bundle", "verify", run])
    assert done.exit_code == 1 and "flows[0].d_ss_mbps: stored 99, now 8" in done.stderr


def test_runs_of_two_kinds_are_not_compared(pair: list[Path], tmp_path: Path) -> None:
    victim, cell = victims_run(tmp_path, pair, 1), cells_run(tmp_path, pair, 1)
    done = CliRunner().invoke(app, ["compare", str(victim), str(cell), f"--output={tmp_path / 'c.html'}"])
    assert (done.exit_code, done.stdout) == (1, "") and done.stderr == (
        f"sojourn: {victim} has a victim, {cell} is of a matrix's cell: they have no metric in common; "
        "compare two of one kind\n"
    )
