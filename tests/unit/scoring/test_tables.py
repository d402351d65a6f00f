# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from sojourn.scoring.picture import frames
from sojourn.scoring.tables import TABLES

START, FPS, LOOP = 1_795_273_136.25, 30, 150
DELAY_S = 0.1


def test_a_calls_frames_are_counted_on_after_a_stall_of_more_than_half_of_the_cameras_film(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers alone say that the picture went back by 2 s: the film has 5 s, and the stall takes 3 s."""
    phase = {"name": "solo", "contender": None, "start": START, "end": START + 20}
    path = {"rtt_ms": 20, "rate_down_bps": 1e7, "qdisc_down": "pfifo", "qdisc_up": "pfifo"}
    lab = {**path, "call": {"ecn": "not-ect"}, "clip": {"frames": LOOP, "fps": FPS, "heights": []}}
    (tmp_path / "timeline.json").write_text(json.dumps({"phases": [phase]}))
    (tmp_path / "lab.json").write_text(json.dumps(lab))
    (tmp_path / "screen.json").write_text(json.dumps({"start": START, "fps": 60, "expected": 1200, "missing": 0}))
    (tmp_path / "screen.mp4").touch()
    (tmp_path / "far").mkdir()
    detail = [[n % LOOP, n / FPS * 1e6, (START + n / FPS) * 1e3] for n in range(600)]
    (tmp_path / "far" / "player.jsonl").write_text(json.dumps({"t": START, "event": "camera", "detail": detail}) + "\n")
    seen = [n for n in range(30, 500) if not 200 <= n < 290]
    recorded = {"t": [START + n / FPS + DELAY_S for n in seen], "frame": [n % LOOP for n in seen], "rendition": 0}
    monkeypatch.setattr(frames, "read_recording", lambda video, start: pl.DataFrame(recorded))
    assert TABLES["frames"].of(tmp_path)["frame"].to_list() == seen
