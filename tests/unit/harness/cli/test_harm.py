# SPDX-License-Identifier: Apache-2.0
"""`sojourn harm` is pytest's main job: the same options, told in groups, completed and passed on."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.harness.options.model import GROUPS, OPTIONS


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    words: list[str] = []
    monkeypatch.setattr(os, "execv", lambda program, command: words.extend(command))
    return words


def test_what_is_named_goes_to_pytest_and_nothing_else(started: list[str]) -> None:
    asked = ["harm", "--qdisc=dualpi2", "--live", "--rate-up", "3mbit", "--", "-x"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert started[:4] == [sys.executable, "-P", "-m", "pytest"]
    (test,) = (number for number, word in enumerate(started) if word.endswith("tests/test_video_harm.py"))
    assert sorted(started[test + 1 : -1]) == ["--live", "--qdisc=dualpi2", "--rate-up=3mbit"] and started[-1] == "-x"


def test_its_help_lists_every_option_in_its_group() -> None:
    told = CliRunner().invoke(app, ["harm", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    for option in OPTIONS:
        assert f"--{option.name} " in told, option.name
        assert all(choice in told for choice in option.choices)
    titles = [told.index(title[0].upper() + title[1:]) for title in GROUPS.values()]
    assert titles == sorted(titles)


def test_a_misspelt_option_is_named_with_the_one_that_is_meant(started: list[str]) -> None:
    done = CliRunner().invoke(app, ["harm", "--qdsic=pie"])
    assert done.exit_code == 2 and "--qdsic" in done.output and "--qdisc" in done.output and not started


@pytest.mark.parametrize(
    ("option", "begun", "offered"), [("service", "y", "youtube"), ("qdisc", "dual", "dualpi2"), ("lab", "v", "virtual")]
)
def test_a_shell_completes_what_an_option_may_be(option: str, begun: str, offered: str) -> None:
    command: Any = get_command(app)
    environment = {
        "_SOJOURN_COMPLETE": "complete_bash", "COMP_WORDS": f"sojourn harm --{option} {begun}", "COMP_CWORD": "3",
    }  # fmt: skip
    done = CliRunner().invoke(app, [], env=environment, prog_name="sojourn")
    assert offered in done.output.split(), (command, done.output)
