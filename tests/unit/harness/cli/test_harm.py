# SPDX-License-Identifier: Apache-2.0
"""`sojourn harm`: its options, its help and completion, what it makes of a session, and its exit codes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from click.testing import Result as Invoked
from typer.main import get_command
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.harness.cli.common import ExitCode
from sojourn.harness.experiment.session import ExperimentSession, TooFewValidError
from sojourn.harness.experiment.sweep import Sweep
from sojourn.harness.options.model import GROUPS, OPTIONS, Options


class Calls:
    """What is done with a session; `stop` is raised by its runs."""

    def __init__(self) -> None:
        self.options: list[Options] = []
        self.command_lines: list[Sequence[str]] = []
        self.finished = 0
        self.stop: BaseException | None = None


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    made = Calls()

    def run(session: ExperimentSession, options: Options, terminal: Any) -> None:
        made.options.append(options)
        made.command_lines.append(session.command_line)
        if made.stop:
            raise made.stop

    def finish(session: ExperimentSession, console: Any) -> None:
        made.finished += 1

    monkeypatch.setattr(ExperimentSession, "run", run)
    monkeypatch.setattr(ExperimentSession, "finish", finish)
    monkeypatch.setattr(ExperimentSession, "require_ready", lambda session: None)
    handler = signal.getsignal(signal.SIGINT)
    yield made
    signal.signal(signal.SIGINT, handler)


def harm(monkeypatch: pytest.MonkeyPatch, *words: str) -> Invoked:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/sojourn", "harm", *words])
    return CliRunner().invoke(app, ["harm", *words])


def test_a_scenario_with_lists_is_a_recorded_map(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Sweep] = []

    def require_ready(sweep: Sweep) -> None:
        made.append(sweep)
        raise RuntimeError("nothing is ready here")

    monkeypatch.setattr(Sweep, "require_ready", require_ready)
    done = harm(monkeypatch, "--scenario=access-line", "--seed=7")
    assert (done.exit_code, done.stderr) == (ExitCode.CANNOT_WORK, "sojourn: nothing is ready here\n")
    (sweep,) = made
    assert [(it.recorder, it.seed) for it in sweep.experiments.values()] == [("ffmpeg", 7)] * 4
    assert not calls.options


def test_what_is_named_makes_the_options_and_the_command_line_of_the_runs(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--qdisc=dualpi2", "--rate-up", "3mbit", "--live", "--lab=virtual"]
    done = harm(monkeypatch, *words)
    assert (done.exit_code, calls.finished) == (ExitCode.VALID, 1), done.output
    (options,) = calls.options
    assert (str(options.qdisc_down), options.rate_up_bps, options.live) == ("dualpi2", 3_000_000, True)
    assert calls.command_lines == [["sojourn", "harm", *words]]


def test_all_services_are_run_whatever_becomes_of_one(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    calls.stop = TooFewValidError("run-1 is invalid: too late\nrun-2 is invalid: too late")
    done = harm(monkeypatch, "--service=all", "--qdisc=dualpi2")
    assert (done.exit_code, calls.finished, len(calls.options)) == (ExitCode.TOO_FEW_VALID, 1, 3)
    lines = ["sojourn: run-1 is invalid: too late", "sojourn: run-2 is invalid: too late"]
    assert done.stderr.splitlines() == lines * 3


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (KeyboardInterrupt("SIGTERM"), 143)])
def test_a_run_that_is_stopped_ends_with_the_signals_code_and_the_tables_of_finished_runs(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, stop: KeyboardInterrupt, code: int
) -> None:
    calls.stop = stop
    done = harm(monkeypatch, "--qdisc=dualpi2")
    assert (done.exit_code, calls.finished) == (code, 1)
    first, rest = done.stderr.split("\n", 1)
    assert first == f"sojourn: stopped by {str(stop) or 'Ctrl-C'}"
    assert rest == "sojourn: nothing was recorded, nothing is kept\n"


def test_an_option_that_cannot_work_starts_nothing(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    done = harm(monkeypatch, "--qdisc=nonsense")
    assert (done.exit_code, calls.options, calls.finished) == (ExitCode.CANNOT_WORK, [], 0)
    assert done.stderr.startswith("sojourn: --qdisc: ") and done.stderr.count("\n") == 1 and not done.stdout


def test_arguments_of_pytest_are_refused_with_the_command_that_takes_them(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = harm(monkeypatch, "--qdisc=dualpi2", "--", "-k", "a b")
    assert (done.exit_code, calls.options) == (2, []) and "`pytest tests/test_video_harm.py -k 'a b'`" in done.stderr


@pytest.mark.parametrize("command", ["harm", "map", "matrix", "bundle export", "build", "rm"])
@pytest.mark.parametrize("words", [["--sign="], ["--results="], ["--repeat", ""], [""]])
def test_an_empty_value_is_refused_in_every_command(calls: Calls, command: str, words: list[str]) -> None:
    done = CliRunner().invoke(app, [*command.split(), *words])
    assert (done.exit_code, done.stdout, calls.options) == (2, "", []) and done.stderr.count("\n") == 1
    named = words[0].removesuffix("=") or command.split()[-1]
    assert "empty" in done.stderr and named in done.stderr


def test_its_help_lists_every_option_in_its_group_and_the_exit_codes() -> None:
    told = CliRunner().invoke(app, ["harm", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    for option in OPTIONS:
        assert f"--{option.name} " in told, option.name
        assert all(choice in told for choice in option.choices)
    titles = [told.index(title[0].upper() + title[1:]) for title in GROUPS.values()]
    assert titles == sorted(titles)
    assert "Exit codes: 0 " in told and all(f" {code} " in told for code in (*ExitCode, 2, 128))


def test_a_misspelt_option_is_named_with_the_one_that_is_meant(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    done = harm(monkeypatch, "--qdsic=pie")
    assert done.exit_code == 2 and "--qdsic" in done.output and "--qdisc" in done.output and not calls.options


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
