# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.cli import app
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import Scores
from tests.programs.harness.cli.test_one_door import made


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
    code, out, _ = sojourn("bundle", "import", tmp_path / "a.tar.zst", f"--results={tmp_path / 'other'}")
    assert (code, out.strip()) == (0, f"{tmp_path / 'other' / run.name} (already there)")
    code, _, err = sojourn("bundle", "import", tmp_path / "a.tar.zst", f"--results={run.parent}")
    assert code == 1 and "exists already" in err  # the run that was packed


def test_an_unfinished_run_of_a_folder_is_printed_by_export(run: Path, tmp_path: Path) -> None:
    cut = RunStore(run.parent).create("video_harm", "cell")
    cut.interrupt(Reason.of("disk-full", "the disk was full"))
    code, out, err = sojourn("bundle", "export", run.parent, "-o", tmp_path / "out")
    assert code == 0 and out.splitlines() == [str(tmp_path / "out" / f"{run.name}.tar.zst")]
    assert err.strip() == f"excluded: {cut.path}: interrupted: the disk was full"
    code, out, err = sojourn("bundle", "export", cut.path, "-o", tmp_path / "out")
    assert code == 0 and out.strip() and not err.strip()


def test_an_archive_that_is_refused_does_not_stop_the_others(run: Path, tmp_path: Path) -> None:
    sojourn("bundle", "export", run, "-o", tmp_path / "a.tar.zst")
    (tmp_path / "cut.tar.zst").write_bytes((tmp_path / "a.tar.zst").read_bytes()[:-9])
    files = tmp_path / "cut.tar.zst", tmp_path / "none.tar.zst", tmp_path / "a.tar.zst"
    code, out, err = sojourn("bundle", "import", *files, f"--results={tmp_path / 'other'}")
    assert (code, out.strip()) == (1, str(tmp_path / "other" / run.name))
    assert "cut.tar.zst: damaged archive" in err and "none.tar.zst: No such file" in err
    assert "scores NOT recomputed: has no scores.json" in err
    (tmp_path / "th.toml").write_text('thresholds = ["stalls == 0"]')
    code, _, err = sojourn("bundle", "verify", tmp_path / "th.toml")
    assert code == 1 and "th.toml: not a bundle; give a run or an archive" in err and "zstd" not in err


def test_a_changed_run_fails_with_one_line(run: Path) -> None:
    (run / "player.jsonl").write_text("[]\n")
    code, out, err = sojourn("bundle", "verify", run)
    digests = "sha256 37517e5f3dc6…, not ca3d163bab05…"
    assert (code, out, err) == (1, "", f"sojourn: player.jsonl: differs from the manifest: {digests}\n")


@pytest.mark.parametrize("command", ["rescore", "report", "figure"])
def test_a_folder_that_is_no_run_is_one_line(command: str, tmp_path: Path) -> None:
    code, _, err = sojourn(command, tmp_path)
    assert code == 1 and err.startswith("sojourn: ") and str(tmp_path) in err and err.count("\n") == 1


def test_doctor_lists_everything_and_its_exit_code_says_whether_runs_can_work() -> None:
    code, out, err = sojourn("doctor")
    assert "user namespaces" in out and "chromium" in out
    assert (code == 1) == ("the sim lab does not work here yet" in err) == ("sim: ready\n" not in out)


def test_every_command_has_help() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sojourn.harness.cli", "--help"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    for command in ("build", "doctor", "harm", "rescore", "report", "compare", "film", "figure", "bundle"):
        assert command in done.stdout


def test_nothing_that_lies_where_it_is_called_is_run(tmp_path: Path) -> None:
    """A folder like /tmp, where others may have put a module of any name."""
    for name in ("random", "pytest", "harness", "conftest"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(66)\n")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "sojourn.harness.cli", "harm", "--qdisc=nonsense"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(CHECKOUT / "harness" / "api")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 4 and "nonsense" in done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_reader_that_closes_the_pipe_ends_the_command_quietly_after_its_page(
    scores: Scores, tmp_path: Path, more: tuple[str, ...]
) -> None:
    runs = [str(made(tmp_path / name, scores)) for name in ("a", "b")]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "sojourn.harness.cli", "compare", *runs, "-o", str(tmp_path / "page.html"), *more],
        cwd=CHECKOUT, stdout=write, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(write)
    assert done.stderr == "" and done.returncode == 1 and (tmp_path / "page.html").is_file()


def test_the_version_names_release_commit_and_scores() -> None:
    code, out, _ = sojourn("--version")
    assert code == 0 and re.fullmatch(
        r"sojourn \d+\.\d+\.\d+ \((commit [0-9a-f]{8}(, changed)?, )?scores \d+\.\d+\)", out.strip()
    )
