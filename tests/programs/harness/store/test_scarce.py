# SPDX-License-Identifier: Apache-2.0
"""A run where inodes, descriptors or memory are few, or the clock jumps: told in one line, nothing recorded is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.bundle.archive import verify
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.manifest import PARTIAL, read_manifest
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import SCORES, Scores

#: Records three files into a run, more as there is room, and commits; prints what became of it.
RECORD = """
import json, resource, sys
from pathlib import Path
from sojourn.harness.store.manifest import StoreError, read_manifest
from sojourn.harness.store.runs import RunStore

results, limit, value = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
held = []
try:
    with RunStore(results).create("t", "c") as run:
        for name in ("client.pcapng", "player.jsonl", "screen.mp4"):
            (run.path / name).write_text("recorded")
        if limit == "inodes":
            for number in range(10_000):
                (run.path / f"more{number}").touch()
        elif limit == "descriptors":
            resource.setrlimit(resource.RLIMIT_NOFILE, (value, value))
            for number in range(10_000):
                held.append((run.path / f"more{number}").open("w"))
        elif limit == "memory":
            resource.setrlimit(resource.RLIMIT_AS, (value << 20, value << 20))
            held.append(bytes(8 << 30))
        run.commit()
    print("COMMITTED")
except (StoreError, OSError, MemoryError) as error:
    told = str(error) or type(error).__name__
    held.clear()
    (left,) = results.iterdir()
    kept = all((left / name).read_text() == "recorded" for name in ("client.pcapng", "player.jsonl", "screen.mp4"))
    manifest = read_manifest(left)
    reasons = [(reason.code, reason.text) for reason in manifest.reasons]
    print(json.dumps([told, left.suffix, kept, manifest.status, reasons, sorted(manifest.files)[:1]]))
"""
LIMITS = {"inodes": 40, "descriptors": 40, "memory": 600}


@pytest.mark.parametrize("limit", LIMITS)
def test_what_was_recorded_is_kept_and_the_run_says_what_lacked(tmp_path: Path, limit: str) -> None:
    (results := tmp_path / "results").mkdir()
    command = [sys.executable, "-c", RECORD, str(results), limit, str(LIMITS[limit])]
    if limit == "inodes":
        mounted = f'mount -t tmpfs -o nr_inodes={LIMITS[limit]} tmpfs {results} && exec "$@"'
        command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted, "sh", *command]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT)
    assert done.returncode == 0, done.stderr
    told, suffix, kept, status, reasons, files = json.loads(done.stdout)
    assert suffix == PARTIAL and kept and status == "interrupted"
    assert {"inodes": "disk full", "descriptors": "Too many open files", "memory": "MemoryError"}[limit] in told
    ((code, why),) = reasons
    assert code == ("disk-full" if limit == "inodes" else "failed")
    assert {"inodes": "No space", "descriptors": "Too many open files", "memory": "MemoryError"}[limit] in why
    assert files == ["client.pcapng"]
    assert "\n" not in told


@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_a_clock_that_jumps_loses_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scores: Scores, step_s: float
) -> None:
    made, now = [], time.time
    with RunStore(tmp_path).create("t", "c") as run:
        (run.path / SCORES).write_text(scores.model_dump_json())
        monkeypatch.setattr(time, "time", lambda: now() + step_s)
        made.append(run.commit())
    with RunStore(tmp_path).create("t", "c") as run:
        (run.path / SCORES).write_text(scores.model_dump_json())
        made.append(run.commit())
    for path in made:
        assert verify(path).status == "valid" and load_run(path).scores == scores
        finished = read_manifest(path).finished
        assert finished is not None and abs(finished - now() - step_s) < 60
    assert sorted(RunStore(tmp_path).runs()) == sorted(made) and os.listdir(tmp_path)
