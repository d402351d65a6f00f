# SPDX-License-Identifier: Apache-2.0
"""A recorded run against the player's log of presented frames; tests/lab/test_map.py has runs without recording."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.scoring.score import score_run

pytestmark = pytest.mark.lab


def test_a_recording_shows_what_the_player_logs(harm_run: Path) -> None:
    scores = Scores.model_validate_json((harm_run / SCORES).read_bytes())
    (gate,) = (it for it in scores.validity.gates if it.code == "frame-log-agrees")
    assert gate.measured == "100.00% of the recorded frames"


def test_a_recorded_run_whose_log_is_lost_fails(harm_run: Path, tmp_path: Path) -> None:
    run = tmp_path / harm_run.name
    shutil.copytree(harm_run, run)
    lines = (run / "player.jsonl").read_text().splitlines(keepends=True)
    (run / "player.jsonl").write_text("".join(line for line in lines if json.loads(line).get("event") != "frame"))
    (gate,) = (it for it in score_run(run).validity.gates if it.code == "frame-log-agrees")
    assert not gate.ok
