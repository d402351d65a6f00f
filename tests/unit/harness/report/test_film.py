# SPDX-License-Identifier: Apache-2.0
"""What a film draws over its recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.harness.report.film import FilmedRun
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.time_series import run_series


@pytest.mark.parametrize(("parties", "shown"), [(0, ">480p<"), (2, ">480p<"), (4, ">480 lines<")])
def test_the_height_of_a_room_is_the_mean_of_its_pictures_and_no_rung(
    scores: Scores, tmp_path: Path, parties: int, shown: str
) -> None:
    view = run_series(scores, tmp_path)
    view.quality[:] = [(0, 30, 480)]
    view.parties.update(dict.fromkeys(range(1, parties + 1), view.quality))
    film = FilmedRun(tmp_path / "screen.mp4", -1, 30, view, scores, tmp_path)
    assert [it.times for it in film.overlays(960) if shown in it.drawing] == [[(0, 30)]]
