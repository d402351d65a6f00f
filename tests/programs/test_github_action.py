# SPDX-License-Identifier: Apache-2.0
"""The GitHub Action of docs/examples: its steps, run here on prepared runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sojourn.hardware.machine.files import CHECKOUT
from tests.programs.scoring.conftest import recorded
from tests.programs.scoring.test_changed_run import again

__all__ = ["recorded"]  # a fixture of the scorers' tests

FOLDER = CHECKOUT / "docs" / "examples" / "github-action"
ACTION = yaml.safe_load((FOLDER / "action.yml").read_text())
#: `harm` takes the prepared runs, or fails; all else is the real command.
SOJOURN = """#!/bin/sh
if [ "$1" = harm ]; then
    printf '%s\\n' "$@" > harm.words
    cp -r prepared results
    exit "$(cat harm.code)"
fi
exec "{python}" -m sojourn.harness.cli "$@"
"""


@pytest.fixture(scope="module")
def prepared(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with one valid run, in which the video stalls."""
    return again(recorded, tmp_path_factory.mktemp("runs")).parent


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with an environment as the set-up makes it, with this `sojourn`."""
    cache = tmp_path_factory.mktemp("cache")
    command = cache / "venv" / "bin" / "sojourn"
    command.parent.mkdir(parents=True)
    command.write_text(SOJOURN.format(python=sys.executable))
    command.chmod(0o755)
    return cache


@pytest.fixture
def workspace(prepared: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as a job has it, for which the set-up prints what it would do."""
    shutil.copytree(prepared, tmp_path / "prepared")
    (tmp_path / "harm.code").write_text("0")
    for name, value in {"MAKEFLAGS": "-n", "SOJOURN_CACHE": str(cache), "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def perform(
    workspace: Path, threshold: str = "stalls with prague == 0", **inputs: str
) -> subprocess.CompletedProcess[str]:
    """Run the steps with these inputs."""
    (workspace / "thresholds.toml").write_text(f'thresholds = ["{threshold}"]\n')
    words = [f"{name.replace('_', '-')}={value}" for name, value in inputs.items()]
    command = [sys.executable, FOLDER / "run_steps.py", *words]
    return subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=False)


def test_it_measures_judges_and_writes_a_comment(workspace: Path) -> None:
    done = perform(workspace, options="--qdisc=fq_codel flows 1\n--repeat=1\n", verdict_options="")
    assert done.returncode == 1, done.stdout + done.stderr
    words = (workspace / "harm.words").read_text().splitlines()
    assert words == ["harm", "--qdisc=fq_codel flows 1", "--repeat=1", "--results=results"]
    comment = (workspace / "sojourn-comment.md").read_text()
    assert comment.startswith("## Sojourn: a threshold is not met\n")
    assert "| stalls with prague == 0 | prague | 2, n=1 | not met |" in comment
    assert "build" in done.stdout, "the set-up builds what a measurement needs"


def test_it_judges_runs_that_there_are(workspace: Path) -> None:
    done = perform(workspace, "stalls with prague == 2", measure="false", results="prepared", verdict_options="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (workspace / "harm.words").exists() and "== Measure: skipped" in done.stdout
    assert (workspace / "sojourn-comment.md").read_text().startswith("## Sojourn: all thresholds are met\n")
    assert "setup.sh" in done.stdout and "cli build" not in done.stdout


def test_too_few_runs_are_not_decided(workspace: Path) -> None:
    done = perform(workspace, measure="false", results="prepared", comment="other.md")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "not decided: 1 run, 5 needed" in (workspace / "other.md").read_text()


def test_too_few_valid_runs_are_judged_and_a_wrong_option_is_not(workspace: Path) -> None:
    (workspace / "harm.code").write_text("1")
    assert perform(workspace, "stalls with prague == 2", verdict_options="").returncode == 0
    (workspace / "harm.code").write_text("4")
    done = perform(workspace)
    assert done.returncode == 4 and "== Judge" not in done.stdout
    assert (workspace / "sojourn-comment.md").read_text().startswith("## Sojourn: nothing was measured\n")


def test_what_cannot_be_judged_is_in_the_comment(workspace: Path) -> None:
    done = perform(workspace, measure="false", results="nowhere")
    assert done.returncode == 4
    comment = (workspace / "sojourn-comment.md").read_text()
    assert comment.startswith("## Sojourn: the runs could not be judged\n\n    sojourn: nowhere: ")


def test_an_unknown_input_is_refused(workspace: Path) -> None:
    done = perform(workspace, option="--repeat=1")
    assert done.returncode == 1 and "no such input: option" in done.stderr


def test_no_input_is_part_of_a_script_and_each_is_used() -> None:
    steps: list[dict[str, Any]] = ACTION["runs"]["steps"]
    assert all("${{" not in step["run"] and step["shell"] == "bash" for step in steps)
    used = set(re.findall(r"inputs\.([\w-]+)", (FOLDER / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])


def test_the_workflow_of_the_documents_gives_inputs_that_there_are() -> None:
    text = (CHECKOUT / "docs" / "pipelines.md").read_text()
    (block,) = (block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "github-action" in block)
    (step,) = (step for step in yaml.safe_load(block)["steps"] if "github-action" in step.get("uses", ""))
    assert (CHECKOUT / step["uses"].removeprefix("./sojourn/") / "action.yml").exists()
    assert step["with"] and set(step["with"]) <= set(ACTION["inputs"])
    assert ACTION["inputs"]["comment"]["default"] in block
