# SPDX-License-Identifier: Apache-2.0
"""`sojourn matrix` takes the declared options by their own parsers."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.harness.matrix.matrix_plan import MatrixPlan


@pytest.mark.parametrize(
    "option",
    [
        "--seed=-1",
        "--seed=x",
        "--seed=4294967296",
        "--repeat=0",
        "--engine=spark",
        "--jitter-gate=soon",
        "--kernel-source=/nowhere",
    ],
)
def test_a_value_that_is_none_is_one_line_that_names_the_option(option: str) -> None:
    done = CliRunner().invoke(app, ["matrix", "s6", "--list", option])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"sojourn: {option.partition('=')[0]}: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--lab=virtual", "--pcap", "--repeat=abc", "--list", "-k=a", "--seed=1"])
def test_the_list_of_all_matrices_takes_no_option(option: str) -> None:
    done = CliRunner().invoke(app, ["matrix", option])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"sojourn: {option.partition('=')[0]}: applies to one matrix; give its name\n"


@pytest.mark.parametrize(
    "options",
    [["--jitter-gate=9ms"], ["--workers=2", "--lab=virtual"], ["--pcap", "--lab=virtual"], ["--lab-file=lab.toml"]],
)
def test_a_list_of_cells_refuses_what_their_run_refuses(options: list[str]) -> None:
    done = CliRunner().invoke(app, ["matrix", "one-flow", "--list", *options])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"sojourn: {options[0].partition('=')[0]}: ") and done.stderr.count("\n") == 1


def test_the_cells_of_a_matrix_that_needs_its_own_kernel_are_listed_without_it() -> None:
    assert CliRunner().invoke(app, ["matrix", "bbr3", "--list"]).exit_code == 0


def test_a_kernel_that_cannot_be_had_is_refused_before_anything_starts(tmp_path: Path) -> None:
    options = ["--kernel-source=/no/linux-7.3.tar.xz", f"--results={tmp_path / 'results'}"]
    done = CliRunner().invoke(app, ["matrix", "one-flow", *options])
    says = "--kernel-source: no such file or folder: /no/linux-7.3.tar.xz; give a linux-*.tar.xz, the top"
    assert done.exit_code == 1 and done.stderr.startswith(f"sojourn: {says}"), done.output
    assert not (tmp_path / "results").exists()


def test_cells_are_listed_with_the_options_that_are_given() -> None:
    options = ["--seed=3", "--repeat=2", "--jitter-gate=9ms", "--lab=virtual", "--engine=local", "--json"]
    done = CliRunner().invoke(app, ["matrix", "one-flow", "--list", *options])
    assert done.exit_code == 0 and json.loads(done.stdout)


def test_ctrl_c_says_what_is_kept_and_how_to_go_on_and_manifests_get_the_command_as_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = list[MatrixPlan]()

    def stopped(plan: MatrixPlan) -> None:
        plans.append(plan)
        raise KeyboardInterrupt

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    words = ["matrix", "one-flow", f"--results={tmp_path}"]
    monkeypatch.setattr("sojourn.harness.matrix.matrix_plan.run_and_report", stopped)
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/sojourn", *words])
    done = CliRunner().invoke(app, words)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    assert done.exit_code == 130 and not done.stdout
    first, second = done.stderr.splitlines()
    assert first == "sojourn: stopped by Ctrl-C"
    assert str(tmp_path / "one-flow") in second and "the same command resumes" in second
    assert list(plans[0].command_line) == ["sojourn", *words]


def test_a_list_of_cells_has_no_sample() -> None:
    done = CliRunner().invoke(app, ["matrix", "one-flow", "--list", "--sample=1"])
    assert (done.exit_code, done.stdout) == (1, "") and "--sample chooses runs" in done.stderr
