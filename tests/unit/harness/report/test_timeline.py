# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import cv2
import pytest

from sojourn.harness.report.picture import PictureError, write_picture
from sojourn.harness.report.timeline import figure, film_plot, panels
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.time_series import run_series


def test_a_stall_is_drawn_once(scores: Scores, tmp_path: Path) -> None:
    spans = panels(run_series(scores, tmp_path))[1].spans
    assert [(kind, start) for kind, start, *_ in spans] == [("freeze", 18.0), ("stall", 14.0)]


def test_the_picture_of_a_call_is_dashed_in_whole_seconds_below_three_quarters_of_its_frame_rate_alone(
    scores: Scores, tmp_path: Path
) -> None:
    video = scores.model_copy(update={"baseline": scores.baseline and scores.baseline.model_copy(update={"fps": 28})})
    video.series.t, video.series.fps = [0, 1, 2, scores.phases[-1].end - 0.5], [28, 21, 20, 7]
    assert [line.kind for line in panels(run_series(video, tmp_path))[1].lines] == ["who-quality"]
    call = video.model_copy(update={"far": video.phases})
    _, thinned = panels(run_series(call, tmp_path))[1].lines
    assert [t for t, value in thinned.points if value is not None] == [2, 3]


def test_the_queue_gets_a_panel_when_it_was_sampled(scores: Scores, tmp_path: Path) -> None:
    assert len(panels(run_series(scores, tmp_path))) == 2
    lines = [
        {
            "t": scores.t0 + n,
            "dev": "eth1",
            "qdiscs": [{"kind": "pie", "handle": "1:", "backlog": 12_500, "drops": n}],
        }
        for n in range(-1, 5)
    ]
    (tmp_path / "qdisc.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "lab.json").write_text('{"interfaces": {"lan": "eth1"}}')
    view = run_series(scores, tmp_path)
    assert view.queue.backlog_ms == [(n, 10.0) for n in range(5)]
    assert [panel.title for panel in panels(view)[2:]] == [
        "backlog of pie at the bottleneck's rate (ms)",
        "marks and drops of pie per second",
    ]
    assert [name for _, name in panels(view)[-1].key] == ["CE marks", "drops"]
    view.queue.sce_per_s = [(0.0, None), (1.0, 40.0)]
    last = panels(view)[-1]
    assert [name for _, name in last.key] == ["CE marks", "SCE marks", "drops"]
    assert {line.name: line.points for line in last.lines}["SCE marks"] == view.queue.sce_per_s and last.top > 40


def test_the_film_of_a_call_shows_when_it_was_heard_and_its_gaps(scores: Scores, tmp_path: Path) -> None:
    view = run_series(scores, tmp_path)
    silent = film_plot(view, (900, 300), "")
    view.ear, view.gaps = [(0.5, 60.0), (1.5, 640.0)], [(0.5, 0.0), (1.5, 250.0)]
    assert panels(view)[2].top > 640 and "mouth to ear" not in silent
    assert "mouth to ear, and gaps" in film_plot(view, (900, 300), "")


@pytest.mark.parametrize("suffix", ["png", "jpg", "svg", "pdf"])
def test_the_figure_is_a_file_of_the_same_bytes(scores: Scores, tmp_path: Path, suffix: str) -> None:
    one, other = (tmp_path / f"{name}.{suffix}" for name in "ab")
    for output in (one, other):
        write_picture(figure(scores, tmp_path), output)
    assert suffix == "pdf" or one.read_bytes() == other.read_bytes()
    if suffix in ("png", "jpg"):
        picture = cv2.imread(str(one))
        assert picture is not None and picture.shape[:2] == (810, 1500)
        assert (picture[..., 2].astype(int) - picture[..., :2].max(axis=2) > 60).any(), "a stall is red"
        words = picture[60:120].min(axis=2) < 100
        assert words.sum() > 200, "the font is there"
    else:
        assert b"%PDF-" in one.read_bytes()[:8] if suffix == "pdf" else "prague" in one.read_text()


def test_another_format_is_refused_before_anything_is_written(scores: Scores, tmp_path: Path) -> None:
    with pytest.raises(PictureError, match=r"harm\.docx.*\.png"):
        write_picture(figure(scores, tmp_path), tmp_path / "harm.docx")
    assert not (tmp_path / "harm.docx").exists()
