# SPDX-License-Identifier: Apache-2.0
"""Scores computed again are told apart from the stored ones, and replace them only when that is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.harness.bundle.archive import import_bundle
from sojourn.harness.bundle.export import ExportRequest, export
from sojourn.harness.experiment.rescore import counted, differences, fields
from sojourn.harness.store.manifest import read_manifest, reseal, write_manifest
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.score import score_run
from tests.programs.harness.cli.test_cli import sojourn


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A committed run that kept no record of its one phase, and that claims to be valid."""
    with RunStore(tmp_path / "results").create("video_harm", "cell") as run:
        phase = {"name": "solo", "contender": None, "start": 100.0, "end": 120.0}
        lab = {"rtt_ms": 20, "rate_down_bps": 1e7, "qdisc_down": "fq_codel", "qdisc_up": "fq_codel", "clip": {}}
        (run.path / "timeline.json").write_text(json.dumps({"phases": [phase]}))
        (run.path / "lab.json").write_text(json.dumps(lab))
        return run.commit()


def test_rescore_renews_scores_status_and_reasons(bare: Path) -> None:
    code, out, err = sojourn("rescore", bare)
    assert (
        code == 1
        and "scores differ, scorer unknown → " in err
        and "replace them with --write" in err
        and read_manifest(bare).status == "valid"
    )
    assert all(f"{bare}: now invalid: {gate.reason}" in err for gate in score_run(bare).validity.gates if not gate.ok)
    code, out, _ = sojourn("rescore", bare, "--write")
    assert code == 0 and "scores replaced" in out
    manifest = read_manifest(bare)
    failed = [Reason(code=gate.code, text=gate.reason) for gate in score_run(bare).validity.gates if not gate.ok]
    assert (manifest.status, manifest.reasons) == ("void", failed) and len(failed) > 10
    assert sojourn("bundle", "verify", bare)[0] == 0
    assert sojourn("rescore", bare)[0] == 0 and sojourn("rescore", bare, "--write")[0] == 0
    assert read_manifest(bare).reasons == failed


def test_scores_of_another_scorer_without_another_value_stay(bare: Path) -> None:
    sojourn("rescore", bare, "--write")
    scores = json.loads((bare / "scores.json").read_text())
    (bare / "scores.json").write_text(json.dumps(scores | {"scorer": "2.0"}))
    reseal(bare, "scores.json")
    code, out, err = sojourn("rescore", bare)
    assert (code, err) == (0, "") and "no value differs; stored scorer 2.0" in out
    assert json.loads((bare / "scores.json").read_text())["scorer"] == "2.0"
    assert "scores replaced" in sojourn("rescore", bare, "--write")[1]
    assert json.loads((bare / "scores.json").read_text()) == scores


def test_an_unfinished_run_is_not_rescored(bare: Path) -> None:
    left = bare.rename(bare.with_name(bare.name + ".partial"))
    manifest = read_manifest(left)
    manifest.status, manifest.reasons = "interrupted", [Reason.of("stopped", "stopped by Ctrl-C")]
    write_manifest(left, manifest)
    code, _, err = sojourn("rescore", left)
    assert code == 1 and f"{left}: the run is not finished: stopped by Ctrl-C; " in err


def test_a_gate_that_failed_before_a_kill_between_scores_and_manifest_is_forgotten(bare: Path) -> None:
    sojourn("rescore", bare, "--write")
    manifest = read_manifest(bare)
    stopped, old = Reason.of("stopped", "the soak was stopped"), Reason(code="old-gate", text="a limit of the past")
    manifest.reasons = [stopped, old, *manifest.reasons]
    write_manifest(bare, manifest)
    sojourn("rescore", bare, "--write")
    assert read_manifest(bare).reasons == [stopped, *manifest.reasons[2:]]


def test_rescore_trusts_no_changed_raw_file(bare: Path) -> None:
    sojourn("rescore", bare, "--write")
    scores = (bare / "scores.json").read_text()
    (bare / "scores.json").write_text(scores.replace('"2.', '"9.'))
    code, _, err = sojourn("rescore", bare)
    assert code == 1 and "scores.json does not match the manifest" in err
    (bare / "timeline.json").write_text((bare / "timeline.json").read_text().replace("120", "130"))
    code, _, err = sojourn("rescore", bare, "--write")
    assert code == 1 and err.startswith("sojourn: timeline.json: differs from the manifest: sha256 ")


def test_a_run_of_a_bundle_without_its_recording_keeps_its_scores(bare: Path) -> None:
    (bare / "screen.mp4").write_bytes(b"film")
    reseal(bare, "screen.mp4")
    sojourn("rescore", bare, "--write")
    clean = import_bundle(export(bare, request=ExportRequest(without_video=True)), bare.parent / "clean")
    before = (clean / "manifest.json").read_bytes()
    code, _, err = sojourn("rescore", clean, "--write")
    assert code == 1 and "its bundle excludes files: screen.mp4" in err and str(clean) in err
    assert (clean / "manifest.json").read_bytes() == before
    assert sojourn("rescore", bare)[0] == 0  # the original


def test_differences_name_the_leaf() -> None:
    stored = {"phases": [{"rtt": 20.0, "gone": 1}], "same": [1, 2]}
    fresh = {"phases": [{"rtt": 20.5}], "same": [1, 2]}
    assert list(differences(stored, fresh)) == [
        "scores.phases[0].gone: stored 1, now absent",
        "scores.phases[0].rtt: stored 20.0, now 20.5",
    ]
    assert list(differences(fresh, fresh)) == []
    assert list(differences({"a": [1]}, {"a": [1, 2]})) == ["scores.a: stored [1], now [1, 2]"]


def test_fields_tell_before_and_after_by_name_wherever_an_entry_stands() -> None:
    stored = {"phases": [{"name": "solo", "p99": 20.0}, {"name": "prague", "p99": 90.0, "gone": 1}]}
    stored |= {"harm": [{"phase": "prague", "metric": "stalls", "harm": 1}], "t": [1, 2]}
    fresh = {"phases": [{"name": "solo", "p99": 20.0}, {"name": "prague", "p99": "Infinity"}]}
    fresh |= {"harm": [{"phase": "prague", "metric": "played", "harm": 0.2}], "t": [1, 2, 3]}
    assert list(fields(stored, fresh)) == [
        'harm[]: prague stalls: {"phase": "prague", "me… → absent; prague played: absent → {"phase": "prague", "me…',
        "phases[].gone: prague: 1 → absent",
        'phases[].p99: prague: 90.0 → "Infinity"',
        "t: [1, 2] → [1, 2, 3]",
    ]
    series = {"mbps": list(range(9))}
    assert list(fields(series, {"mbps": [0, *range(2, 10)]})) == ["mbps[]: 1: 1 → 2; 2: 2 → 3; 3: 3 → 4 and 5 more"]


def test_what_is_new_is_told_from_what_has_another_value() -> None:
    stored = {"scorer": "2.0", "phases": [{"name": "solo", "p50": 20.0, "p99": None, "gone": 1}]}
    fresh = {"scorer": "2.1", "phases": [{"name": "solo", "p50": 21.0, "p99": 30.0, "new": None}]}
    assert counted(stored, fresh) == "2 changed, 1 new, 1 gone"
    assert counted(fresh, {**fresh, "scorer": "2.2"}) == "no value differs"
    assert list(fields(stored, fresh))[1:4] == [
        "phases[].new: solo: absent → null",
        "phases[].p50: solo: 20.0 → 21.0",
        "phases[].p99: solo: null → 30.0",
    ]


def test_what_another_package_judged_is_not_scored_without_it(bare: Path) -> None:
    manifest = read_manifest(bare)
    write_manifest(bare, manifest.model_copy(update={"versions": {"package sojourn-strict": "1.0"}}))
    code, _, err = sojourn("rescore", bare, "--write")
    assert code == 1 and "was judged with package sojourn-strict, which is not installed here" in err
