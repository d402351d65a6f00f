# SPDX-License-Identifier: Apache-2.0
"""A real game in simulated time: its delays against the path's and the captures', NQB, and the same bytes again."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.tables import TABLES
from tests.lab.main_job import run_harm

pytestmark = pytest.mark.lab

PATH_MS = 20.0
LIMIT = 50
#: Of a full queue of LIMIT packets of 1514 bytes at 20 Mbit/s, and one more that is being sent.
MOST_LATE_MS = (LIMIT + 1) * 1514 * 8 / 20e6 * 1e3


def game(results: Path, qdisc: str, *further: str) -> tuple[Path, Scores]:
    """Return the valid run of a game with CUBIC."""
    path = "--rate=20mbit", "--rtt=40ms", "--exact", "--timeline=solo:5,cubic:6", "--rpm=off"
    done = run_harm(results, "--service=game", f"--qdisc={qdisc}", *path, *further)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = RunStore(results).runs()
    scores = load_run(run).scores
    assert isinstance(scores, Scores)
    return run, scores


def test_delays_are_those_of_the_path_and_of_the_queue(tmp_path: Path) -> None:
    run, scores = game(tmp_path, f"pfifo limit {LIMIT}")
    solo, cubic = scores.phases
    assert solo.tick_p50_ms == pytest.approx(PATH_MS, abs=0.2) == solo.input_p50_ms
    assert solo.tick_in_16ms == 1 and solo.tick_loss == 0 and (solo.tick_jitter_ms or 0) < 0.2
    assert cubic.tick_in_16ms is not None and cubic.tick_in_16ms < 0.9 and cubic.input_in_50ms == 1
    packets = TABLES["game"].of(run)
    assert 10 < (packets["late_ms"].max() or 0) <= MOST_LATE_MS + 1  # type: ignore[operator]
    # The captures on both sides of the router are another record of the same packets.
    (row,) = (it for it in scores.sojourn if (it.phase, it.of) == ("cubic", "victim"))
    assert cubic.tick_p50_ms == pytest.approx(PATH_MS + (row.p50_ms or 0), abs=0.5)
    sent = packets.filter(way="down").height
    assert sent == pytest.approx(60 * 11, abs=60 * 6)  # also before the first phase and after the last


def test_only_its_dscp_moves_a_game_to_the_l_queue(tmp_path: Path) -> None:
    late = {}
    for dscp in (0, 45):
        _, scores = game(tmp_path / str(dscp), "dualpi2 nqb", f"--game-dscp={dscp}", "--ip-version=6")
        late[dscp] = 1 - (scores.phases[1].tick_in_16ms or 0)
    assert late[0] > 0.05 > 0.01 > late[45]
