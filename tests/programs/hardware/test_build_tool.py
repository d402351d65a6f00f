# SPDX-License-Identifier: Apache-2.0
"""A tool that hangs is ended, with all that it started."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware import build_tool
from sojourn.hardware.machine.cache import BuildError
from tests.processes import outliving
from tests.refusals import refusal


def test_a_tool_that_hangs_is_named_and_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_tool, "_LONGEST_S", 3.0)
    with refusal(BuildError, "no-answer", "sh ", " 3 s"):
        build_tool.call(["sh", "-c", f"sleep 600 & echo $! >{tmp_path}/child; wait"])
    child = int((tmp_path / "child").read_text())
    assert not outliving([child])


def test_what_a_tool_says_is_returned_or_told() -> None:
    assert build_tool.call(["echo", "made"]) == "made\n"
    with refusal(BuildError, "failed", "sh ", ": E: no"):
        build_tool.call(["sh", "-c", "echo more; echo 'E: no' >&2; exit 3"])
    with refusal(BuildError, "missing-program", "sojourn-no-such-tool"):
        build_tool.call(["sojourn-no-such-tool"])
