# SPDX-License-Identifier: Apache-2.0
"""Which needed files a run does not have, and which of them were removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.harness.store.evidence import missing_evidence, removed_evidence
from sojourn.harness.store.manifest import Bundled, prune, read_manifest
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.records import RecordError


def run_with(results: Path, *names: str) -> Path:
    with RunStore(results).create("t", "c") as run:
        phase = {"name": "solo", "contender": None, "start": 1.0, "end": 9.0}
        lab = {"rtt_ms": 20, "rate_down_bps": 1e7, "qdisc_down": "pfifo", "qdisc_up": "pfifo", "clip": {}}
        (run.path / "timeline.json").write_text(json.dumps({"phases": [phase]}))
        (run.path / "lab.json").write_text(json.dumps(lab))
        for name in names:
            (run.path / name).write_text("")
        return run.commit()


def test_missing_files_are_named_by_all_their_names(tmp_path: Path) -> None:
    run = run_with(tmp_path, "screen.json", "player.jsonl", "qdisc.jsonl", "host.jsonl", "server.pcapng")
    missing = missing_evidence(run, read_manifest(run))
    assert ("screen.mp4",) in missing and ("client.pcapng.zst", "client.pcapng") in missing
    assert not {"screen.json", "server.pcapng", "timeline.json"} & {name for names in missing for name in names}


def test_only_what_was_pruned_or_excluded_was_removed(tmp_path: Path) -> None:
    run = run_with(tmp_path, "screen.mp4", "notes.log")
    assert removed_evidence(run, read_manifest(run)) == []
    for name in ("screen.mp4", "notes.log"):  # of which scoring needs one
        prune(run, name)
    manifest = read_manifest(run)
    assert removed_evidence(run, manifest) == ["screen.mp4"]
    manifest.bundle = Bundled(source="0" * 64, left_out=["client.pcapng", "4 logs and other files"])
    assert removed_evidence(run, manifest) == ["screen.mp4", "client.pcapng"]


def test_without_a_timeline_nothing_is_known(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    (run / "timeline.json").unlink()
    with pytest.raises(RecordError, match="cannot be read"):
        missing_evidence(run, read_manifest(run))
