# SPDX-License-Identifier: Apache-2.0
"""A stand-in's run as a recording: its profile is requested as the stand-in was, and SABR's server decides."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from sojourn.apps.options import SABR_POLICIES
from sojourn.hardware.machine import cache
from sojourn.harness.cli import app
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.tables import TABLES
from tests.har_of_run import har_of_run, segments
from tests.lab.main_job import run_harm
from tests.tiers import first

pytestmark = pytest.mark.lab


def valid_run(results: Path, *options: str) -> Path:
    done = run_harm(results, "--timeline=solo:8,cubic:10,solo:8", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = RunStore(results).runs()
    assert load_run(run).scores.validity.valid
    return run


def heights(run: Path) -> dict[int, int]:
    """The height in each second of a run, by the player's samples."""
    samples = TABLES["player"].of(run).select("t", "height").drop_nulls()
    begun = samples["t"][0]
    return {int(t - begun): height for t, height in samples.iter_rows()}


@pytest.mark.parametrize("seed", first(1, [3, 1, 2, 4, 5, 6]))
def test_a_profile_of_a_stand_in_is_requested_as_the_stand_in_was(seed: int, tmp_path: Path) -> None:
    """The same segments of the same sizes in the same order, and the same height in at least 95 % of seconds."""
    same = f"--seed={seed}", "--player=dash-dynamic", "--recorder=none"
    recorded = valid_run(tmp_path / "recorded", *same)
    served = (line for line in (recorded / "Caddyfile").read_text().splitlines() if "/clip/" in line)
    folder = cache.root() / next(served).partition('"')[2].rstrip('"').partition("cache/")[2]
    (har := tmp_path / "stand-in.har").write_text(json.dumps(har_of_run(recorded, folder / "manifest.mpd")))
    profile = tmp_path / "service.toml"
    done = CliRunner().invoke(app, ["profile", str(har), "-o", str(profile), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["buffer_s"] == 12.0
    played = valid_run(tmp_path / "played", "--service=profile", f"--url={profile}", *same)
    assert json.loads((played / "lab.json").read_text())["profile"]["larger_segments"] == 0
    was, now = [*segments(recorded)], [*segments(played)]
    # The end of a run may cut its last segment off, before it is requested or while it is sent.
    both_ran = min(len(was), len(now))
    assert was[: both_ran - 1] == now[: both_ran - 1] and was[both_ran - 1][0] == now[both_ran - 1][0]
    assert max(len(was), len(now)) - both_ran <= 1
    before, after = heights(recorded), heights(played)
    both = before.keys() & after.keys()
    assert len(both) > 25
    assert sum(before[second] == after[second] for second in both) >= 0.95 * len(both)


@pytest.mark.parametrize("policy", first(1, ["hybrid", *SABR_POLICIES[:2]]))
def test_the_server_of_the_sabr_stand_in_chooses(policy: str, tmp_path: Path) -> None:
    """What its log says that it sent is what the screen shows, and an answer has seconds of sound and picture."""
    run = valid_run(tmp_path, "--service=sabr", f"--sabr-policy={policy}", "--rate=6mbit")
    lines = [json.loads(line) for line in (run / "origin.jsonl").read_text().splitlines()]
    answers = [it for it in lines if "segments" in it]
    filled = [it for it in answers if it["segments"]]
    assert len(filled) > 8
    assert all(any(name.startswith("sound") for name in it["segments"]) for it in filled[:2])
    assert max(len([name for name in it["segments"] if not name.startswith("sound")]) for it in filled) == 2
    assert any(it["backoff_s"] > 0 for it in filled)
    # Playback is never further ahead than the server lets it.
    assert all(it["ahead_s"] <= 12.5 for it in answers)
    sent = {int(name.split()[0]) for it in filled for name in it["segments"] if not name.startswith("sound")}
    shown = set(TABLES["frames"].of(run).drop_nulls("height")["height"])
    assert shown and shown <= sent
    made = TABLES["decisions"].of(run)
    assert {*made["height"]} <= sent and made.filter(pl.col("throughput_bps") > 0).height > 0
