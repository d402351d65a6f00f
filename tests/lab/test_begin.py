# SPDX-License-Identifier: Apache-2.0
"""What a machine did before its experiment, such as importing one more module, changes nothing of what follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab import begin_inside
from tests.lab.inside import run_inside

pytestmark = pytest.mark.lab


def _seen(folder: Path, before: str) -> dict[str, Any]:
    folder.mkdir()
    (folder / "before").write_text(before)
    run_inside(Path(begin_inside.__file__), folder)
    seen: dict[str, Any] = json.loads((folder / "seen.json").read_text())
    return seen


def test_what_came_before_the_experiment_changes_nothing_of_it(tmp_path: Path) -> None:
    plain = _seen(tmp_path / "plain", "0 0 0")
    assert len(set(plain["seen"]["times"])) > 20 and len(set(plain["seen"]["random"])) == 20
    for name, before in {"files": "7 0 0", "clock": "0 100 0", "numbers": "0 0 5", "all": "83 777 31"}.items():
        other = _seen(tmp_path / name, before)
        assert (other["ready_ns"] != plain["ready_ns"]) or name == "numbers"
        assert other["seen"] == plain["seen"], name
