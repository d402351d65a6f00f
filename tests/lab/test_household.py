# SPDX-License-Identifier: Apache-2.0
"""A household's evening: several downloads and an upload at once, a rate that steps, a path that loses and bursts.

What is watched is a film of the user's own, in renditions of his own. On another one somebody fetches pages beside a
download, then another film is watched and somebody calls.
"""

from __future__ import annotations

import json
import subprocess
from math import inf
from pathlib import Path

import pytest

from sojourn.bottleneck.units import parse_rate
from sojourn.harness.report.picture_quality import measure
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.picture.quality import QualityError
from sojourn.scoring.tables import TABLES
from tests.lab.main_job import run_main_job

pytestmark = [pytest.mark.lab, pytest.mark.nightly]

SCENARIO = """
clip = "film.mp4"
ladder = "240p:200k,480p:900k"
timeline = "solo:16,cubic*2+prague@up:30,solo:4"
rate = "20mbit,31s:8mbit"
rate-up = "4mbit"
loss = "0.2%"
jitter = "1ms"
bursts = "1ms-4ms"
"""


def test_each_flow_is_proven_and_the_path_is_as_asked(tmp_path: Path) -> None:
    (scenario := tmp_path / "evening.toml").write_text(SCENARIO)
    source = ["-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25", "-t", "4"]
    subprocess.run(["ffmpeg", "-v", "error", *source, str(tmp_path / "film.mp4")], check=True)
    done = run_main_job(tmp_path / "results", f"--scenario={scenario}")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = RunStore(tmp_path / "results").runs()
    scores = load_run(run).scores
    flows = [(flow.contender, flow.up, flow.sport) for flow in scores.flows]
    assert flows == [("cubic", False, 40000), ("cubic", False, 40001), ("prague", True, 40002)]
    beside = scores.phases[1]
    assert beside.contender == "cubic*2+prague@up"
    upload = scores.flows[2]
    assert upload.accecn_syn and upload.ce and upload.ect1 > 0.99 * upload.data_packets
    assert 3 < (beside.contender_up_mbps or 0) < 4
    # The rate stepped where it was asked to, and the bottleneck's queue let no more through.
    (step,) = scores.lab["rate_steps"]
    assert (step["direction"], step["rate_bps"]) == ("down", parse_rate("8mbit")) and abs(step["t"] - 31) < 0.6
    series = scores.series
    down = [
        (t, (victim or 0) + (contender or 0))
        for t, victim, contender in zip(series.t, series.victim_mbps or [], series.contender_mbps or [], strict=True)
    ]
    before = [mbps for t, mbps in down if 22 < t < 30]
    after = [mbps for t, mbps in down if 34 < t < 45]
    assert sum(before) / len(before) > 9 and max(after) < 8.1
    assert json.loads((run / "lab.json").read_text())["verified_at_end"] is True
    # Of the probe beside the bottleneck the path loses and delays what it was asked to, and the gates allow for it.
    gates = {gate.code: gate.measured for gate in scores.validity.gates}
    assert 0 < float(gates["unshaped-probe-lost"].split()[0]) < 1
    assert scores.jitter_ms and 3 < scores.jitter_ms.p99 < 10
    # The film is the user's, frame by frame, in his renditions; its quality on the screen is told against it.
    assert scores.picture == "strip" and all(phase.dominant_height == 480 for phase in scores.phases)
    assert all(29 < (phase.fps or 0) < 31 for phase in scores.phases)
    assert json.loads((run / "lab.json").read_text())["clip"]["heights"] == [240, 480]
    judged = measure(run, 5.0, lambda share: None)
    assert judged["height"].unique().to_list() == [480] and judged["ssim"].min() > 0.8
    (tmp_path / "film.mp4").write_bytes(b"another")
    with pytest.raises(QualityError, match=r"film\.mp4: no longer the film that "):
        measure(run, 5.0, lambda share: None)
    page = (run / "report.html").read_text()
    words = "8 Mbit/s down at 31", "s uploads Mbit/s", "of the path, round trip", "prague, up"
    assert all(text in page for text in words)


def test_web_users_a_second_video_and_a_call_are_proven_and_told(tmp_path: Path) -> None:
    done = run_main_job(tmp_path, "--timeline=solo:16,cubic+web*2:20,video+call:20,solo:4")
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = RunStore(tmp_path).runs()
    loaded = load_run(run)
    _, web, video, _ = loaded.scores.phases
    assert loaded.scores.validity.valid
    assert [(flow.phase, flow.contender) for flow in loaded.scores.flows] == [("cubic+web*2", "cubic")]
    # What two users fetch in 20 s, one of them each 2 s on average.
    assert 10 <= (web.web_flows or 0) <= 32 and (web.web_unfinished or 0) < (web.web_flows or 0)
    assert 0.05 < (web.web_fct_p50_s or 0) <= (web.web_fct_p95_s or 0) < 20
    assert (web.victim_mbps or 0) + (web.contender_mbps or 0) > 8
    fetches = TABLES["fetches"].of(run)
    assert fetches["server_port"].unique().sort().to_list() == [5100, 5101] and fetches.height >= (web.web_flows or 0)
    # The second film's player climbs by itself; the call sends 1.79 Mbit/s each way.
    assert video.second_height and video.second_height >= 240 and video.second_stall_s is not None
    assert 1.7 < (video.contender_up_mbps or 0) < 1.9 and (video.contender_mbps or 0) > 2
    assert video.call_up_loss == 0 and 10 < (video.call_up_p99_ms or 0) < 500
    # Down it shares the queue, and what is lost there never comes.
    assert 0.01 < (video.call_down_loss or 0) < 0.3 and video.call_down_p99_ms == inf
    assert (run / "second" / "player.jsonl").stat().st_size
    page = (run / "report.html").read_text()
    assert all(text in page for text in ("web flows", "FCT P50 s", "second video, mostly", "call down: lost"))
