# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from sojourn.harness.report.filmstrip import MOST, moments, without_pictures
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.time_series import ProbeSeries, run_series


def test_the_worst_moment_is_the_stall_and_each_phase_is_there(scores: Scores, tmp_path: Path) -> None:
    view = run_series(scores, tmp_path)
    chosen = moments(view)
    assert len(chosen) <= MOST and [it.t for it in chosen] == sorted(it.t for it in chosen)
    worst = max(chosen, key=lambda it: it.weight)
    assert (worst.t, worst.words) == (15.25, "stall of 2.5 s")
    assert "falls to 240p" in {it.words for it in chosen}
    for phase in view.phases:
        assert any(phase.start <= it.t < phase.end for it in chosen)
    assert all(later.t - earlier.t >= 0.6 for earlier, later in pairwise(chosen))


def test_without_a_stall_the_peak_of_delay_is_the_worst(scores: Scores, tmp_path: Path) -> None:
    view = run_series(scores.model_copy(update={"freezes": [], "renditions": []}), tmp_path)
    view.rtts.append(ProbeSeries("", [], [(t, 90.0 if t == 17 else 20.0) for t in range(30)]))
    assert max(moments(view), key=lambda it: it.weight).words == "delay 90 ms"


def test_the_lowest_picture_is_worse_than_a_larger_step(scores: Scores, tmp_path: Path) -> None:
    view = run_series(scores.model_copy(update={"freezes": [], "renditions": []}), tmp_path)
    view.quality[:] = [(0, 16, 2160), (16, 19, 1080), (19, 22, 720), (22, 30, 2160)]
    assert max(moments(view), key=lambda it: it.weight).words == "falls to 720p"
    view.parties.update(dict.fromkeys((1, 2, 3, 4), view.quality))  # of a room, a height is the mean of its pictures
    assert max(moments(view), key=lambda it: it.weight).words == "falls to 720 lines (mean of 3 pictures)"


def test_pictures_are_removed_and_nothing_else() -> None:
    page = '<img src="data:image/jpeg;base64,AAB/+="><a href="data:text/html;base64,AA==">"data:image/jpeg;base64,<b>"'
    assert without_pictures(page) == page.replace("data:image/jpeg;base64,AAB/+=", "data:,")
