# SPDX-License-Identifier: Apache-2.0
"""`sojourn map` from the command line: what it refuses before anything starts."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.harness.cli.common import ExitCode
from sojourn.harness.experiment.series import SeriesOfRuns
from sojourn.harness.experiment.sweep import Sweep


@pytest.mark.parametrize(
    ("words", "mentioned"),
    [
        ([], "a map needs an option"),
        (["--rtt=10ms,20ms"], "without --, such as rtt=10ms,40ms"),
        (["rtr=10ms,20ms"], "did you mean rtt"),
        (["rtt=10ms,20ms", "--lab=virtual"], "sojourn soak"),
        (["rtt=10ms,20ms", "--rtt=30ms"], "--rtt"),
        (["rate=10mbit,fast"], "--rate"),
    ],
)
def test_what_cannot_be_swept_is_one_line_and_starts_nothing(words: list[str], mentioned: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["map", *words, f"--results={tmp_path / 'map'}"])
    assert done.exit_code == ExitCode.CANNOT_WORK
    assert mentioned in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "map").exists()


def test_ctrl_c_says_that_finished_runs_are_kept_and_the_same_command_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(Sweep, "require_ready", lambda _: None)
    monkeypatch.setattr(Sweep, "run", stopped)
    handler = signal.getsignal(signal.SIGINT)
    done = CliRunner().invoke(app, ["map", "rtt=10ms,20ms", f"--results={tmp_path / 'map'}"])
    signal.signal(signal.SIGINT, handler)
    first, second = done.stderr.splitlines()
    assert done.exit_code == 130 and first == "sojourn: stopped by Ctrl-C"
    assert str(tmp_path / "map") in second and "the same command resumes" in second


def test_it_counts_experiments_and_runs_in_plain_english(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def begun(sweep: Sweep, _command: object, _terminal: object, begun: Callable[[SeriesOfRuns], None]) -> NoReturn:
        begun(SeriesOfRuns(sweep.experiments))
        raise RuntimeError("enough")

    monkeypatch.setattr(Sweep, "require_ready", lambda _: None)
    monkeypatch.setattr(Sweep, "run", begun)
    CliRunner().invoke(app, ["map", "rtt=10ms", "--repeat=1", f"--results={tmp_path / 'map'}"])
    assert "map of 1 experiment: 1 run to make\n" in capfd.readouterr().err
