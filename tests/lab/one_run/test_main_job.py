# SPDX-License-Identifier: Apache-2.0
"""The main job from the command line, shortened: its evidence is whole, scores twice the same, packs and verifies."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from sojourn.harness.bundle.archive import import_bundle, verify
from sojourn.harness.bundle.export import ExportRequest, export
from sojourn.harness.store.manifest import read_manifest
from sojourn.scoring.packets import latency
from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.scoring.score import score_run
from tests.lab.canaries import PROJECT, kept_out, names
from tests.lab.main_job import open_to_others
from tests.unit.harness.bundle.contents import told

pytestmark = pytest.mark.lab

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
    "irtt-ect1.json.gz",
    "irtt-unshaped.json.gz",
    "bulk.json",
    "ss.jsonl",
    "scores.json",
    "report.html",
]


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


def test_evidence_is_whole(harm_run: Path) -> None:
    assert [name for name in EVIDENCE if not (harm_run / name).exists()] == []
    manifest = read_manifest(harm_run)
    assert set(EVIDENCE) <= set(manifest.files)
    told = {"router kernel", "router tc", "chromium", "guest", "guest ffmpeg", "irtt", "player"}
    assert told <= set(manifest.versions)
    assert "dualpi2" not in (harm_run / "setup.log").read_text()
    teardown = (harm_run / "teardown.log").read_text()
    assert "fq_codel" in teardown and teardown.count("InCEPkts") >= 2, "counters of the queues, and of both ends"
    assert not open_to_others(harm_run)


def test_scores_tell_who_was_there(harm_run: Path) -> None:
    scores = Scores.model_validate_json((harm_run / SCORES).read_bytes())
    assert scores.picture == "strip"
    assert [phase.contender for phase in scores.phases] == [None, "cubic", None, "prague", None]
    proven = {gate.name: gate for gate in scores.validity.gates if gate.code == "contender-proven"}
    assert len(proven) == 2 and all(gate.ok for gate in proven.values()), proven
    prague = next(flow for flow in scores.flows if flow.contender == "prague")
    assert prague.accecn_syn and prague.ect1 and prague.ce
    by_name = {phase.name: phase for phase in scores.phases}
    agrees_with_player(harm_run, scores)
    assert (by_name["prague"].contender_mbps or 0) > (by_name["solo-1"].contender_mbps or 0)


def test_alone_every_frame_is_shown_and_the_lab_adds_nothing(harm_run: Path) -> None:
    scores = Scores.model_validate_json((harm_run / SCORES).read_bytes())
    assert scores.phases[0].fps == pytest.approx(30, abs=0.01)
    assert scores.jitter_ms and scores.jitter_ms.p99 <= 0.05
    codes = {gate.code for gate in scores.validity.gates}
    assert {"every-frame-recorded", "time-forwards"} <= codes and "host-stalls" not in codes


def test_selenium_and_obs_give_the_same_evidence(l4s_run: Path) -> None:
    assert [name for name in EVIDENCE if not (l4s_run / name).exists()] == []
    versions = read_manifest(l4s_run).versions
    assert versions["driver"].startswith("Selenium ") and {"chromedriver", "chromium", "obs"} <= set(versions)
    screen = json.loads((l4s_run / "screen.json").read_text())
    assert screen["recorder"] == "obs" and screen["start_error"] < 1 / 60
    assert screen["missing"] == screen["lagged"] + screen["skipped"]
    scores = Scores.model_validate_json((l4s_run / SCORES).read_bytes())
    assert scores.picture == "strip"
    assert {"recording-complete", "player-samples-complete"} <= {gate.code for gate in scores.validity.gates}
    agrees_with_player(l4s_run, scores)


def test_the_probe_beside_the_queue_sees_the_path_alone(harm_run: Path) -> None:
    scores = Scores.model_validate_json((harm_run / SCORES).read_bytes())
    beside = {phase.name: phase for phase in scores.phases if phase.contender}
    unshaped, shaped = (latency.read_irtt(harm_run / f"{name}.json.gz") for name in ("irtt-unshaped", "irtt"))
    for phase in beside.values():
        window = [(scores.t0 + phase.start, scores.t0 + phase.end)]
        past, through = (latency.percentile(latency.within(it, window), 50, "rtt_ms") for it in (unshaped, shaped))
        assert past == pytest.approx(20, abs=0.05) and through and through > 25


def test_each_probe_sees_its_queue_of_dualpi2(l4s_run: Path) -> None:
    """Prague fills the L queue and keeps it short; the other probe waits with the video in C."""
    scores = Scores.model_validate_json((l4s_run / SCORES).read_bytes())
    prague = next(phase for phase in scores.phases if phase.contender == "prague")
    assert prague.rtt_p90_ms and prague.ect1_rtt_p50_ms and prague.ect1_rtt_p99_ms
    assert 20 < prague.ect1_rtt_p50_ms < prague.ect1_rtt_p99_ms < 30 < prague.rtt_p90_ms
    assert prague.ect1_probe_loss is not None and prague.ect1_probe_loss < 0.01  # one of 150 in an overload
    rows = {row.of: row for row in scores.sojourn if row.phase == prague.name and row.of.endswith("probe")}
    assert {of: row.queue for of, row in rows.items()} == {"probe": "C", "ect1_probe": "L"}
    assert rows["ect1_probe"].marked and not rows["probe"].marked
    proven = {gate.name: gate.ok for gate in scores.validity.gates if gate.code == "probe-marked"}
    assert proven == {
        f"{name} probe marked ({end})": True for name in ("Not-ECT", "ECT(1)") for end in ("client", "server")
    }


def test_samples_of_the_queue_come_every_100_ms(l4s_run: Path) -> None:
    samples = [said for said in map(json.loads, (l4s_run / "qdisc.jsonl").open()) if said["dev"] == "lan"]
    gaps = [after["t"] - before["t"] for before, after in pairwise(samples)]
    assert len(gaps) > 150 and gaps == pytest.approx([0.1] * len(gaps), abs=0.001)
    queue = next(q for q in samples[0]["qdiscs"] if q["kind"] == "dualpi2")
    assert {"prob", "delay-c", "delay-l", "backlog", "drops"} <= queue.keys()


def test_rescoring_gives_the_same_bytes(harm_run: Path) -> None:
    assert score_run(harm_run).model_dump_json(indent=1) + "\n" == (harm_run / SCORES).read_text()


def test_bundle_verifies_and_names_what_was_changed(harm_run: Path, tmp_path: Path) -> None:
    archive = export(harm_run, tmp_path / "run.tar.zst")
    verify(archive)
    verify(harm_run)
    lab = harm_run / "lab.json"
    before = lab.read_text()
    try:
        lab.write_text(json.dumps(json.loads(before) | {"rate_down_bps": 1}))
        with pytest.raises(RuntimeError, match=r"lab\.json"):
            verify(harm_run)
    finally:
        lab.write_text(before)


def test_no_secret_of_its_surroundings_is_in_a_run_or_in_what_is_given_away_of_it(
    harm_run: Path, tmp_path: Path
) -> None:
    assert told(harm_run, kept_out()) == {}
    assert PROJECT in json.dumps(told(harm_run, names())), "nothing to hide: the search would find nothing"
    given = import_bundle(
        export(harm_run, tmp_path / "given.tar.zst", request=ExportRequest(anonymise=True)), tmp_path / "given"
    )
    assert told(given, [*kept_out(), *names()]) == {}
    assert {"client.pcapng.zst", "irtt.json.gz", "qdisc.jsonl", "scores.json", "report.html"} <= set(
        read_manifest(given).files
    )
