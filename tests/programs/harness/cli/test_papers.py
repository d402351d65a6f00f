# SPDX-License-Identifier: Apache-2.0
"""`sojourn paper` from the command line: what it knows, and the exit code of a check."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.harness.report import stamps


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    done = CliRunner().invoke(app, ["paper", "harm-in-two-queues"])
    assert done.exit_code == 1 and "harm-in-one-queue" in done.stderr


@pytest.mark.parametrize(("old", "code"), [({}, 0), ({"harm-in-one-queue": ["kernel"]}, 1)])
def test_a_check_names_what_has_changed(monkeypatch: pytest.MonkeyPatch, old: dict[str, list[str]], code: int) -> None:
    monkeypatch.setattr(stamps, "out_of_date", lambda tables: old)
    done = CliRunner().invoke(app, ["paper", "--check", "harm-in-one-queue"])
    assert done.exit_code == code
    assert ("README.md: harm-in-one-queue is out of date (kernel)" in done.stdout) == bool(old)
