# SPDX-License-Identifier: Apache-2.0
"""A screening run: no recording, the same figures from the player's log of presented frames."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sojourn.harness.report.film import RunFilmError, write_film
from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.scoring.score import score_run
from sojourn.scoring.tables import TABLES
from tests.lab.one_run.conftest import valid_run

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def screening_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which many flows leave the video nothing for seconds."""
    return valid_run(tmp_path_factory, "--recorder=none", "--timeline=solo:10,prague*4:12", "--rate=4mbit")


def scores_of(run: Path) -> Scores:
    return Scores.model_validate_json((run / SCORES).read_bytes())


def test_the_picture_is_the_players_log(screening_run: Path) -> None:
    scores = scores_of(screening_run)
    assert scores.picture == "player" and not list(screening_run.glob("screen*"))
    assert json.loads((screening_run / "lab.json").read_text())["screening"] is True
    assert "every-frame-logged" in {gate.code for gate in scores.validity.gates}
    solo, contended = scores.phases
    assert (solo.fps, solo.stalls) == (pytest.approx(30, abs=0.5), 0)
    assert contended.stall_s and any(entry.kind == "stall" for entry in scores.freezes)
    shown = TABLES["frames"].of(screening_run)
    assert shown["frame"].is_sorted() and set(shown["height"]) <= {240, 360, 480, 720}
    assert "frame" not in set(TABLES["player"].of(screening_run)["event"])


def test_a_recording_shows_what_the_player_logs(harm_run: Path) -> None:
    (gate,) = (it for it in scores_of(harm_run).validity.gates if it.code == "frame-log-agrees")
    assert gate.measured == "100.00% of the recorded frames"


def test_a_recorded_run_whose_log_is_lost_fails(harm_run: Path, tmp_path: Path) -> None:
    run = tmp_path / harm_run.name
    shutil.copytree(harm_run, run)
    lines = (run / "player.jsonl").read_text().splitlines(keepends=True)
    (run / "player.jsonl").write_text("".join(line for line in lines if json.loads(line).get("event") != "frame"))
    (gate,) = (it for it in score_run(run).validity.gates if it.code == "frame-log-agrees")
    assert not gate.ok


def test_it_has_no_film(screening_run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFilmError, match=r"screen\.mp4: is missing"):
        write_film([(screening_run, scores_of(screening_run))], tmp_path / "film.mp4", lambda *_: None)
