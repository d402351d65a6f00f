# SPDX-License-Identifier: Apache-2.0
"""Every command that tells something tells it as JSON too: nothing else on standard output, nothing but ASCII."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.scoring.schema.scores import Scores
from tests.programs.harness.cli.test_one_door import made


def thresholds(folder: Path) -> Path:
    (file := folder.parent / "thresholds.toml").write_text('thresholds = ["stalls >= 0"]\n')
    return file


#: Commands that make something, and say where it lies.
MAKERS = {
    "harm", "build", "lab init", "lab power", "hardware image", "report", "figure", "film", "data", "flent",
    "bundle export", "bundle import", "bundle crate", "soak run", "soak summary", "map", "paper",
    "open", "rm",
}  # fmt: skip
#: Those that need more than a made-up run: tests/lab/one_run, test_status.py and test_profiles.py have them.
ELSEWHERE = {"rescore", "rerun", "quality", "mos", "ecn", "lab check", "soak status", "profile"}
TELLERS: dict[str, Callable[[Path, Path], list[str]]] = {
    "doctor": lambda run, other: [],
    "matrix": lambda run, other: ["s6", "--list"],
    "ls": lambda run, other: [str(run.parent)],
    "summary": lambda run, other: [str(run)],
    "compare": lambda run, other: [str(run), str(other), "-o", str(run.parent / "compare.html")],
    "verdict": lambda run, other: [str(run), f"--thresholds={thresholds(run.parent)}", "--no-rescore"],
    "trend": lambda run, other: [str(run.parent), str(other.parent), "-o", str(run.parent / "trend.html")],
    "bundle verify": lambda run, other: [str(run), "--no-rescore"],
}


def commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


def test_each_command_makes_or_tells() -> None:
    known = dict(commands(typer.main.get_command(app)))
    assert set(known) - MAKERS == {*TELLERS, *ELSEWHERE}
    for name, command in known.items():
        options = {word for parameter in command.params for word in parameter.opts}
        assert ("--json" in options) == (name not in MAKERS), name


@pytest.mark.parametrize("name", TELLERS)
def test_it_is_json_and_nothing_else(scores: Scores, tmp_path: Path, name: str) -> None:
    run, other = made(tmp_path / "results", scores), made(tmp_path / "other", scores)
    done = CliRunner().invoke(app, [*name.split(), *TELLERS[name](run, other), "--json"])
    # What a machine lacks; that two runs are too few for a change to show.
    assert done.exit_code == 0 or (name, done.exit_code) in (("doctor", 1), ("trend", 3)), done.output
    assert json.loads(done.stdout) and done.stdout.isascii()


def test_a_matrix_that_is_run_has_none(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["matrix", "s6", "--json"])
    assert done.exit_code == 1 and "--json applies to lists; add --list" in done.stderr
