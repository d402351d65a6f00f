# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import cv2
import pytest

from sojourn.harness.report.timeline import panels
from sojourn.harness.report.timeline_figure import draw
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.time_series import run_series


def test_a_stall_is_drawn_once(scores: Scores, tmp_path: Path) -> None:
    spans = panels(run_series(scores, tmp_path))[1].spans
    assert [(kind, start) for kind, start, *_ in spans] == [("freeze", 18.0), ("stall", 14.0)]


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
        "CE marks (purple) and drops (red) per second of pie",
    ]
    view.queue.sce_per_s = [(0.0, None), (1.0, 40.0)]
    last = panels(view)[-1]
    assert last.title == "CE marks (purple), SCE marks (blue) and drops (red) per second of pie"
    assert dict(last.lines)["c0"] == view.queue.sce_per_s and last.top > 40


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_figure_is_drawn(scores: Scores, tmp_path: Path, suffix: str) -> None:
    output = tmp_path / f"harm.{suffix}"
    draw(scores, tmp_path, output)
    if suffix == "png":
        picture = cv2.imread(str(output))
        assert picture is not None and picture.shape[1] == 1500
        stall_red = (abs(picture.astype(int) - [146, 146, 232]).sum(axis=2) < 40).any()
        assert stall_red
    else:
        assert "prague" in output.read_text() or "<svg" in output.read_text()
