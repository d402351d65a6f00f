# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hardware.machine.files import CHECKOUT
from harness.cli import app, differences
from harness.store.runs import RunStore, read_manifest
from scoring.score import score_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with RunStore(tmp_path / "results").create("video_harm", "cell") as run:
        (run.path / "player.jsonl").write_text("{}\n")
        return run.commit()


def sojourn(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_bundle_is_exported_and_verified(run: Path, tmp_path: Path) -> None:
    code, out, _ = sojourn("bundle", "export", run, "-o", tmp_path / "a.tar.zst")
    assert (code, out.strip()) == (0, str(tmp_path / "a.tar.zst"))
    for path, files in ((tmp_path / "a.tar.zst", 2), (run, 1)):  # a bundle holds its description too
        code, out, _ = sojourn("bundle", "verify", path)
        assert code == 0 and f"all {files} files as recorded; the run is valid" in out
    code, out, _ = sojourn("bundle", "import", tmp_path / "a.tar.zst", f"--results={tmp_path / 'other'}")
    assert (code, out.strip()) == (0, str(tmp_path / "other" / run.name))
    code, _, err = sojourn("bundle", "import", tmp_path / "a.tar.zst", f"--results={tmp_path / 'other'}")
    assert code == 1 and "is there already" in err


def test_a_changed_run_fails_with_one_line(run: Path) -> None:
    (run / "player.jsonl").write_text("[]\n")
    code, out, err = sojourn("bundle", "verify", run)
    assert (code, out, err) == (1, "", "sojourn: player.jsonl: differs from the manifest\n")


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
    assert code == 1 and "--write replaces them" in err and read_manifest(bare).status == "valid"
    assert all(f"{bare}: void now: {gate.reason}" in err for gate in score_run(bare).validity.gates if not gate.ok)
    code, out, _ = sojourn("rescore", bare, "--write")
    assert code == 0 and "scores replaced" in out
    manifest = read_manifest(bare)
    failed = [gate.reason for gate in score_run(bare).validity.gates if not gate.ok]
    assert (manifest.status, manifest.reasons) == ("void", failed) and len(failed) > 10
    assert sojourn("bundle", "verify", bare)[0] == 0
    assert sojourn("rescore", bare)[0] == 0 and sojourn("rescore", bare, "--write")[0] == 0
    assert read_manifest(bare).reasons == failed


def test_rescore_trusts_no_changed_raw_file(bare: Path) -> None:
    sojourn("rescore", bare, "--write")
    scores = (bare / "scores.json").read_text()
    (bare / "scores.json").write_text(scores.replace('"1.', '"9.'))
    code, _, err = sojourn("rescore", bare)
    assert code == 1 and "scores.json is not the one that the manifest holds" in err
    (bare / "timeline.json").write_text((bare / "timeline.json").read_text().replace("120", "130"))
    code, _, err = sojourn("rescore", bare, "--write")
    assert (code, err) == (1, "sojourn: timeline.json: differs from the manifest\n")


@pytest.mark.parametrize("command", ["rescore", "report", "figure"])
def test_a_folder_that_is_no_run_is_one_line(command: str, tmp_path: Path) -> None:
    code, _, err = sojourn(command, tmp_path)
    assert code == 1 and err.startswith("sojourn: ") and str(tmp_path) in err and err.count("\n") == 1


def test_differences_name_the_leaf() -> None:
    stored = {"phases": [{"rtt": 20.0, "gone": 1}], "same": [1, 2]}
    fresh = {"phases": [{"rtt": 20.5}], "same": [1, 2]}
    assert list(differences(stored, fresh)) == [
        "scores.phases[0].gone: stored 1, now null",
        "scores.phases[0].rtt: stored 20.0, now 20.5",
    ]
    assert list(differences(fresh, fresh)) == []
    assert list(differences({"a": [1]}, {"a": [1, 2]})) == ["scores.a: stored [1], now [1, 2]"]


def test_doctor_lists_everything_and_its_exit_code_says_whether_runs_can_work() -> None:
    code, out, err = sojourn("doctor")
    assert "user namespaces" in out and "chromium" in out
    assert (code == 1) == ("runs cannot work here yet" in err) == ("✗" in out)


def test_every_command_has_help() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", "--help"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    for command in ("build", "doctor", "harm", "rescore", "report", "compare", "export", "figure", "bundle"):
        assert command in done.stdout
