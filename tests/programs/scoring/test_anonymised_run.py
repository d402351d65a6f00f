# SPDX-License-Identifier: Apache-2.0
"""An anonymised bundle of a run gives the figures of the run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import zstandard
from typer.testing import CliRunner

from sojourn.harness.bundle import anonymise
from sojourn.harness.bundle.anonymise import AnonymiseError
from sojourn.harness.bundle.archive import import_bundle
from sojourn.harness.bundle.export import ExportRequest, export
from sojourn.harness.cli import app
from sojourn.harness.experiment.score_check import check_scores
from sojourn.harness.store.manifest import (
    Manifest,
    StoreError,
    hash_files,
    prune,
    read_manifest,
    reseal,
    write_manifest,
)
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.packets.per_flow import address
from sojourn.scoring.schema.scores import SCORES
from sojourn.scoring.score import score_run
from tests.refusals import refusal

MOVED = {"10.42.1.10": "192.168.77.20", "10.42.1.20": "192.168.77.21", "10.42.2.10": "203.0.113.80",
         "10.42.2.20": "203.0.113.81"}  # fmt: skip


def moved(run: Path) -> Path:
    """Give every machine of the run an address of a real lab."""
    for name in ("lab.json", "ss.jsonl"):
        text = (run / name).read_text()
        for old, new in MOVED.items():
            text = text.replace(old, new)
        (run / name).write_text(text)
    for name in ("client.pcapng.zst", "server.pcapng.zst"):
        packets = zstandard.ZstdDecompressor().stream_reader((run / name).read_bytes()).read()
        for old, new in MOVED.items():
            packets = packets.replace(address(old).to_bytes(4, "big"), address(new).to_bytes(4, "big"))
        (run / name).write_bytes(zstandard.compress(packets))
    return run


def test_an_anonymised_run_is_scored_alike(run: Path, tmp_path: Path) -> None:
    scores = score_run(moved(run))
    assert scores.validity.valid and scores.harm and scores.sojourn
    (run / SCORES).write_text(scores.model_dump_json(indent=1) + "\n")
    manifest = Manifest(run="a-run", test="t", cell="c", created=1.0, finished=time.time(), status="valid")
    manifest.files = hash_files(run)
    write_manifest(run, manifest)

    clean = import_bundle(export(run, request=ExportRequest(anonymise=True)), tmp_path / "clean")
    assert not any(old in (clean / "lab.json").read_text() for old in MOVED.values())
    done = CliRunner().invoke(app, ["rescore", str(clean)])
    assert done.exit_code == 0 and "scores unchanged" in done.output


def small(results: Path, screening: bool, *further: str, **more: Any) -> Path:
    """A scored, invalid run of one phase; `further` files are empty, `more` goes into lab.json."""
    with RunStore(results).create("video_harm", "cell") as run:
        phase = {"name": "solo", "contender": None, "start": 100.0, "end": 120.0}
        lab: dict[str, Any] = {"rtt_ms": 20, "rate_down_bps": 1e7, "qdisc_down": "fq_codel", "qdisc_up": "fq_codel"}
        lab |= {"clip": {}, "screening": screening, **more}
        (run.path / "timeline.json").write_text(json.dumps({"phases": [phase]}))
        (run.path / "lab.json").write_text(json.dumps(lab))
        for name in further:
            (run.path / name).write_text("")
        scores = score_run(run.path)
        (run.path / SCORES).write_text(scores.model_dump_json(indent=1) + "\n")
        run.void(*(Reason(code=gate.code, text=gate.reason) for gate in scores.validity.gates if not gate.ok))
        return run.commit()


def test_a_run_that_never_had_a_recording_is_scored(tmp_path: Path) -> None:
    run = small(tmp_path / "results", screening=True)
    reasons = [reason.text for reason in read_manifest(run).reasons]
    assert len(reasons) > 5
    clean = import_bundle(export(run, request=ExportRequest(anonymise=True)), tmp_path / "clean")
    check_scores(clean, read_manifest(clean))
    assert [reason.text for reason in read_manifest(clean).reasons] == reasons


def test_a_run_whose_recording_was_removed_keeps_its_scores_without_their_texts(tmp_path: Path) -> None:
    run = small(tmp_path / "results", False, "screen.mp4")
    prune(run, "screen.mp4")
    clean = import_bundle(export(run, request=ExportRequest(anonymise=True)), tmp_path / "clean")
    stored = [json.loads((it / SCORES).read_text())["validity"]["gates"] for it in (run, clean)]
    assert [gate["ok"] for gate in stored[0]] == [gate["ok"] for gate in stored[1]]
    assert any(gate["reason"].startswith("withheld-") for gate in stored[1])


def test_a_bundle_of_a_pruned_run_with_the_logs_of_a_game_can_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = {"game-client.jsonl", "game-server.jsonl"}
    run = small(tmp_path / "results", False, "screen.mp4", "karel.log", "kept.log", *logs)
    (run / "game-client.jsonl").write_text('{"t_ns": 1790000009000000000, "sent": 0, "bytes": 40, "host": "karel"}\n')
    manifest = read_manifest(run)
    manifest.required = sorted(manifest.files)
    manifest.files = hash_files(run)
    write_manifest(run, manifest)
    for name in ("screen.mp4", "karel.log"):
        prune(run, name)
    clean = import_bundle(export(run, request=ExportRequest(anonymise=True)), tmp_path / "clean")
    manifest = read_manifest(clean)
    assert manifest.bundle and manifest.bundle.left_out == ["1 logs and other files", "screen.mp4"]
    assert manifest.required == sorted({"lab.json", "scores.json", "screen.mp4", "timeline.json", *logs})
    assert json.loads((clean / "game-client.jsonl").read_text()) == {
        "t_ns": 1790000009000000000, "sent": 0, "bytes": 40
    }  # fmt: skip
    keepers = anonymise._keepers(b"k" * 32)
    monkeypatch.setattr(anonymise, "_keepers", lambda _: {n: k for n, k in keepers.items() if n not in logs})
    with refusal(StoreError, "missing", run, "game-client.jsonl and 1 more"):
        export(run, tmp_path / "incomplete.tar.zst", ExportRequest(anonymise=True))
    assert not [*tmp_path.glob("incomplete*")]


def test_an_export_that_changes_the_verdict_is_refused(tmp_path: Path) -> None:
    run = small(tmp_path / "results", screening=True)
    scores = json.loads((run / SCORES).read_text())
    scores["validity"]["valid"] = True
    (run / SCORES).write_text(json.dumps(scores))
    reseal(run, SCORES)
    first = next(gate["reason"] for gate in scores["validity"]["gates"] if not gate["ok"])
    with refusal(AnonymiseError, "altered", run, "valid, those of the anonymised files invalid", first):
        export(run, request=ExportRequest(anonymise=True))
    assert not [*run.parent.glob("*.tar.zst*")]
