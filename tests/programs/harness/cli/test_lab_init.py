# SPDX-License-Identifier: Apache-2.0
"""`sojourn lab init` with the real ip and ssh: where a machine does not answer, its user is asked all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.harness.cli import app


@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_is_there_is_never_overwritten(tmp_path: Path, there: bool) -> None:
    file = tmp_path / "lab.toml"
    if there:
        file.write_text("mine")
    near = ("router", "nobody@127.0.0.1", "", "lan0", "wan0", "10.0.1.2", "-", "-", "10.0.1.3")
    far = ("me@127.0.0.1", "", "10.0.2.2", "-", "me@127.0.0.1", "", "10.0.2.3", "")
    answers = "\n".join((*near, *far))
    done = CliRunner().invoke(app, ["lab", "init", f"--lab-file={file}"], input=answers)
    if there:
        assert done.exit_code == 1 and "exists already" in done.stderr and file.read_text() == "mine"
    else:
        assert done.exit_code == 0, done.output
        assert (
            read_lab_file(file).sender.ssh == "me@127.0.0.1" and f"sojourn lab check --lab-file={file}" in done.stdout
        )


def test_addresses_of_two_versions_write_no_file(tmp_path: Path) -> None:
    near = ("router", "nobody@127.0.0.1", "", "lan0", "wan0", "10.0.1.2", "-", "-", "10.0.1.3")
    far = ("me@127.0.0.1", "", "fd00::2", "-", "me@127.0.0.1", "", "fd00::3", "")
    file = tmp_path / "lab.toml"
    done = CliRunner().invoke(app, ["lab", "init", f"--lab-file={file}"], input="\n".join((*near, *far)))
    assert done.exit_code == 1 and "use one version for all" in done.stderr and not file.exists()


@pytest.mark.parametrize("answers", ["", "router\n"])
def test_where_the_answers_end_one_line_says_that_nothing_was_written(tmp_path: Path, answers: str) -> None:
    done = CliRunner().invoke(app, ["lab", "init", f"--lab-file={tmp_path / 'lab.toml'}"], input=answers)
    assert done.exit_code == 1 and not (tmp_path / "lab.toml").exists()
    assert done.stderr == f"sojourn: lab init: the answers ended; {tmp_path / 'lab.toml'} was not written\n"
    assert done.stdout.endswith("\n") and done.stdout.count("ssh destination") == bool(answers)
