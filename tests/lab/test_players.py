# SPDX-License-Identifier: Apache-2.0
"""Every chosen player in a recorded run: what its log of frames shows is what the screen shows, and it decides."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from sojourn.apps.options import LOW_LATENCY_PLAYERS, PLAYERS
from sojourn.apps.players import BY_NAME
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.evidence import Setting
from sojourn.scoring.run_evidence import RunEvidence
from sojourn.scoring.tables import TABLES
from tests.lab.main_job import run_harm
from tests.tiers import first

pytestmark = pytest.mark.lab

TIMELINE = "--timeline=solo:6,cubic:8"


def valid_run(results: Path, *options: str) -> Path:
    done = run_harm(results, TIMELINE, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = RunStore(results).runs()
    assert load_run(run).scores.validity.valid
    return run


@pytest.mark.parametrize("player", first(1, ["shaka", *(name for name in PLAYERS if name != "shaka")]))
def test_the_log_of_frames_has_the_heights_of_the_strip(player: str, tmp_path: Path) -> None:
    run = valid_run(tmp_path, f"--player={player}", "--buffer=6")
    loaded = load_run(run)
    assert loaded.manifest.versions["player"] == BY_NAME[player].version
    (gate,) = (it for it in loaded.scores.validity.gates if it.code == "frame-log-agrees")
    assert gate.measured == "100.00% of the recorded frames"
    made = TABLES["decisions"].of(run)
    start, end = Setting.read(run).span
    requested = made.filter(pl.col("t") < end)
    assert {*requested["height"]} <= set(json.loads((run / "lab.json").read_text())["clip"]["heights"])
    assert (made["buffer_s"] <= 6.1).all() and made["throughput_bps"].null_count() < made.height
    # A shown height was requested before.
    asked = {height: t for t, height in reversed(list(made.select("t", "height").iter_rows()))}
    shown = TABLES["frames"].of(run).drop_nulls("height").filter(pl.col("t") > start)
    assert all(asked[height] < t for t, height in shown.select("t", "height").iter_rows())


@pytest.mark.nightly
def test_the_origin_paces_dash_js_by_the_buffer_that_its_page_logs(tmp_path: Path) -> None:
    run = valid_run(tmp_path, "--player=dash-dynamic", "--origin-pacing=sammy", "--rate=20mbit")
    lab = json.loads((run / "lab.json").read_text())
    assert lab["paced_origin"] == {"http": "1.1", "pacing": "sammy"}
    lines = [json.loads(line) for line in (run / "origin.jsonl").read_text().splitlines()]
    segments = [it for it in lines if ".m4s" in it["uri"]]
    rates = [it["pacing_bps"] / lab["clip"]["rates_bps"][-1] for it in segments]
    assert max(rates) == 3 and all(1.5 <= it <= 3 for it in rates) and rates[-1] < 2
    assert all("pacing_bps" not in it for it in lines if it not in segments)
    logged = TABLES["decisions"].of(run)["buffer_s"]
    both = list(zip(segments, logged, strict=False))
    assert len(both) > 5 and all(abs(it["ahead_s"] - buffer) < 0.3 for it, buffer in both)


@pytest.mark.parametrize("player", first(1, ["hls.js", *LOW_LATENCY_PLAYERS[:-1]]))
def test_the_latency_is_that_of_the_picture_on_the_screen(player: str, tmp_path: Path) -> None:
    """The strip's frame, and so when it was broadcast, says how late it is shown."""
    run = valid_run(tmp_path, "--service=iptv", f"--player={player}", "--target-latency=3")
    assert load_run(run).scores.phases[0].stalls == 0, "alone it does not wait for the broadcast"
    lab = json.loads((run / "lab.json").read_text())
    frames, fps = lab["clip"]["frames"], lab["clip"]["fps"]
    shown = TABLES["frames"].of(run).drop_nulls("frame").sort("t")
    log = RunEvidence(run).evidence.live
    assert log is not None
    loop = frames / fps
    late = (shown["t"] - lab["broadcast"]["start"] - shown["frame"] / fps) % loop
    seen = shown.select("t").with_columns(late=late).filter(pl.col("t").diff().fill_null(1) > 0)
    both = log.sort("t").join_asof(seen, on="t").drop_nulls()
    assert both.height > 30
    assert ((both["latency_s"] - both["late"]).abs() < 0.15).mean() > 0.95
    phases = load_run(run).scores.phases
    assert all(it.live_latency_s and 2.5 < it.live_latency_s < 6 for it in phases if not it.contender)
    assert all(it.playback_rate and 0.94 < it.playback_rate < 1.06 for it in phases)
