# SPDX-License-Identifier: Apache-2.0
"""What becomes of a run whose soak was killed, from its files alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sojourn.harness.soak.state import RUN, Attempt, BatchDirectory, settled
from sojourn.harness.store.reasons import Reason


@pytest.mark.parametrize("recorded", [True, False])
def test_a_killed_run_ended_with_its_last_sign_of_life(tmp_path: Path, recorded: bool) -> None:
    begun = time.time() - 40_000
    folder = BatchDirectory(tmp_path)
    (tmp_path / "attempts").mkdir()
    attempt = Attempt(number=1, round=1, cell="a", seed=1, begun=begun)
    if recorded:
        (run := tmp_path / "run.partial").mkdir()
        folder.file(1, RUN).write_text("run")
        (run / "player.jsonl").write_text("{}")
        for seconds, file in ((1, folder.file(1, RUN)), (300, run / "player.jsonl")):
            os.utime(file, (begun + seconds, begun + seconds))
    ended = settled(folder, attempt, Reason.of("killed", "the soak was killed"), "killed").ended
    assert ended == pytest.approx(begun + 300 * recorded, abs=0.01)
