# SPDX-License-Identifier: Apache-2.0
"""The main job from the command line, shortened: its evidence is whole, scores twice the same, packs and verifies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.bundle import verify
from harness.export import export
from harness.store import MANIFEST, read_manifest
from scoring.score import SCORES, Scores, score_run

pytestmark = pytest.mark.lab

CHECKOUT = Path(__file__).parents[2]
#: What the evidence directory must hold.
EVIDENCE = [
    "options.json",
    "timeline.json",
    "lab.json",
    "setup.log",
    "teardown.log",
    "screen.mp4",
    "screen.json",
    "player.jsonl",
    "qdisc.jsonl",
    "client.pcapng.zst",
    "server.pcapng.zst",
    "irtt.json.gz",
    "irtt-unshaped.json.gz",
    "bulk.json",
    "ss.jsonl",
    "scores.json",
    "report.html",
]


def run_main_job(results: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the main job as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "tests/test_video_harm.py", "-p", "no:cacheprovider", "--service=youtube",
         f"--results={results}", *arguments],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=1200, env=os.environ | environment,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One short run in simulated time: valid, whatever else this machine does."""
    results = tmp_path_factory.mktemp("results")
    done = run_main_job(results, "--timeline=solo:10,cubic:15,solo:10,prague:20,solo:5")
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (manifest.parent for manifest in results.glob(f"*/{MANIFEST}"))
    assert str(path) in done.stdout and read_manifest(path).status == "valid"
    return path


def agrees_with_player(run: Path, scores: Scores) -> None:
    """The frames read off the screen are those that the player says it displayed."""
    told = [said for said in map(json.loads, (run / "player.jsonl").open()) if "totalFrames" in said]
    begun = json.loads((run / "timeline.json").read_text())["phases"][0]["start"]
    recorded = json.loads((run / "screen.json").read_text())["fps"]
    for phase in scores.phases:
        first, *_, last = (it for it in told if phase.start <= it["t"] - begun <= phase.end)
        displayed = [it["totalFrames"] - it["droppedFrames"] for it in (first, last)]
        fps = (displayed[1] - displayed[0]) / (last["t"] - first["t"])
        missed = 0 if recorded == 60 else fps / 3  # a recorder no faster than the film misses some
        assert fps - missed - 4 < (phase.fps or 0) < fps + 4, phase.name


def test_evidence_is_whole(run: Path) -> None:
    assert [name for name in EVIDENCE if not (run / name).exists()] == []
    manifest = read_manifest(run)
    assert set(EVIDENCE) <= set(manifest.files)
    told = {"router kernel", "router tc", "chromium", "guest", "guest ffmpeg", "irtt", "player"}
    assert told <= set(manifest.versions)
    assert "dualpi2" not in (run / "setup.log").read_text()
    assert "fq_codel" in (run / "teardown.log").read_text()


def test_scores_tell_who_was_there(run: Path) -> None:
    scores = Scores.model_validate_json((run / SCORES).read_bytes())
    assert scores.picture == "strip"
    assert [phase.contender for phase in scores.phases] == [None, "cubic", None, "prague", None]
    proven = {gate.name: gate for gate in scores.validity.gates if gate.name.startswith("contender proven")}
    assert len(proven) == 2 and all(gate.ok for gate in proven.values()), proven
    prague = next(flow for flow in scores.flows if flow.contender == "prague")
    assert prague.accecn_syn and prague.ect1 and prague.ce
    by_name = {phase.name: phase for phase in scores.phases}
    agrees_with_player(run, scores)
    assert (by_name["prague"].contender_mbps or 0) > (by_name["solo-1"].contender_mbps or 0)


def test_alone_every_frame_is_shown_and_the_lab_adds_nothing(run: Path) -> None:
    scores = Scores.model_validate_json((run / SCORES).read_bytes())
    assert scores.phases[0].fps == pytest.approx(30, abs=0.01)
    assert scores.jitter_ms and scores.jitter_ms.p99 <= 0.05
    gates = {gate.name for gate in scores.validity.gates}
    assert {"every frame recorded", "time goes forwards"} <= gates and "host stalls" not in gates


def test_selenium_and_obs_give_the_same_evidence(tmp_path: Path) -> None:
    done = run_main_job(tmp_path, "--driver=selenium", "--recorder=obs", "--timeline=solo:10,cubic:10")
    (run,) = (manifest.parent for manifest in tmp_path.glob(f"*/{MANIFEST}"))
    assert run.suffix != ".partial", done.stdout + done.stderr
    assert [name for name in EVIDENCE if not (run / name).exists()] == []
    versions = read_manifest(run).versions
    assert versions["driver"].startswith("Selenium ") and {"chromedriver", "chromium", "obs"} <= set(versions)
    screen = json.loads((run / "screen.json").read_text())
    assert screen["recorder"] == "obs" and screen["start_error"] < 1 / 60
    assert screen["missing"] == screen["lagged"] + screen["skipped"]
    scores = Scores.model_validate_json((run / SCORES).read_bytes())
    assert scores.picture == "strip"
    gates = {gate.name: gate for gate in scores.validity.gates}
    assert gates["recording complete"].ok and gates["player samples complete"].ok, gates
    agrees_with_player(run, scores)


def test_rescoring_gives_the_same_bytes(run: Path) -> None:
    assert score_run(run).model_dump_json(indent=1) + "\n" == (run / SCORES).read_text()


def test_bundle_verifies_and_names_what_was_changed(run: Path, tmp_path: Path) -> None:
    archive = export(run, tmp_path / "run.tar.zst")
    verify(archive)
    verify(run)
    lab = run / "lab.json"
    before = lab.read_text()
    try:
        lab.write_text(json.dumps(json.loads(before) | {"rate_down_bps": 1}))
        with pytest.raises(RuntimeError, match=r"lab\.json"):
            verify(run)
    finally:
        lab.write_text(before)
