# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sojourn.hardware.machine.errors import Code
from sojourn.harness.report.index import unfinished
from sojourn.harness.store.manifest import StoreError, read_manifest, reseal
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunStore
from tests.refusals import refusal


def test_a_committed_run_holds_the_hash_of_every_file(tmp_path: Path) -> None:
    with RunStore(tmp_path).create("video_harm", "fq_codel flows 1 10mbit", seed=7, command_line=["pytest"]) as run:
        assert run.path.name.endswith("Z-video_harm-fq_codel-flows-1-10mbit.partial")
        (run.path / "logs").mkdir()
        (run.path / "logs" / "a.log").write_text("hello\n")
        run.add_versions({"kernel": "7.2.4"})
        final = run.commit()
    manifest = json.loads((final / "manifest.json").read_text())
    assert manifest["schema_version"] == 1 and manifest["seed"] == 7 and manifest["status"] == "valid"
    assert manifest["reasons"] == [] and manifest["versions"] == {"kernel": "7.2.4"}
    assert manifest["files"] == {"logs/a.log": {"sha256": hashlib.sha256(b"hello\n").hexdigest(), "size": 6}}
    assert len(manifest["git"]["commit"]) == 40
    assert [p.name for p in tmp_path.iterdir()] == [final.name]
    assert RunStore(tmp_path).runs() == [final]


def test_a_void_run_is_committed_with_its_reasons(tmp_path: Path) -> None:
    with RunStore(tmp_path).create("t", "c") as run:
        run.void(reason := Reason(code="recorder-frames-missing", text="recorder missed 3 % of frames"))
        manifest = read_manifest(run.commit())
    assert (manifest.status, manifest.reasons) == ("void", [reason])


def test_a_failed_run_keeps_its_files_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), RunStore(tmp_path).create("t", "c") as run:
        (run.path / "player.jsonl").write_text("{}\n")
        _ = 1 / 0
    manifest = read_manifest(run.path)
    assert run.path.suffix == ".partial" and list(manifest.files) == ["player.jsonl"]
    assert manifest.status == "interrupted"
    assert manifest.reasons == [Reason.of("failed", "ZeroDivisionError: division by zero")]


def test_a_start_that_recorded_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="Xvfb"), RunStore(tmp_path).create("t", "c") as run:
        (run.path / "options.json").write_text("{}\n")
        (run.path / "setup.log").write_text("ip link\n")
        (run.path / "logs").mkdir()
        (run.path / "logs" / "xvfb.log").write_text("no screen\n")
        (run.path / "logs" / "xvfb.number").touch()
        raise RuntimeError("Xvfb")
    assert list(tmp_path.iterdir()) == [] and unfinished(tmp_path) == []


def test_what_a_page_showed_is_kept(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), RunStore(tmp_path).create("t", "c") as run:
        (run.path / "logs").mkdir()
        (run.path / "logs" / "page.png").write_bytes(b"PNG")
        raise RuntimeError
    assert [left.path for left in unfinished(tmp_path)] == [run.path]


def test_the_next_run_takes_nothing_from_one_that_lives(tmp_path: Path) -> None:
    alive = RunStore(tmp_path).create("t", "c")
    RunStore(tmp_path).create("t", "c").commit()
    (alive.path / "x").write_text("recorded")
    assert alive.commit().is_dir()


def test_runs_of_one_second_get_directories_of_their_own(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: store.create("t", "c"), range(8)))
    assert len({run.path for run in runs}) == 8
    assert len({run.commit() for run in runs}) == 8


def test_commit_never_replaces_another_run(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create("t", "c")
    taken = tmp_path / run.manifest.run
    taken.mkdir()
    (taken / "old").write_text("precious")
    with pytest.raises(StoreError):
        run.commit()
    assert (taken / "old").read_text() == "precious" and run.path.is_dir()


@pytest.mark.parametrize(
    ("folder", "code"),
    [("/sys/sojourn", "not-writable"), ("/proc/x", "not-writable"), ("/etc/hostname/x", "not-a-folder")],
)
def test_an_unwritable_folder_is_one_clear_line(folder: str, code: Code) -> None:
    with refusal(StoreError, code, f"--results {folder}: "):
        RunStore(Path(folder)).create("t", "c")


def test_too_little_space_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with refusal(StoreError, "disk-full", f"--results {tmp_path / 'r'}: "):
        RunStore(tmp_path / "r").create("t", "c", needed=1 << 60)
    assert list((tmp_path / "r").iterdir()) == []


def test_reseal_takes_the_new_hash_of_named_files_only(tmp_path: Path) -> None:
    with RunStore(tmp_path).create("t", "c") as run:
        (run.path / "report.html").write_text("old")
        (run.path / "raw").write_text("raw")
        final = run.commit()
    before = read_manifest(final).files
    (final / "report.html").write_text("new")
    (final / "raw").write_text("tampered")
    reseal(final, "report.html")
    after = read_manifest(final).files
    assert after["report.html"] != before["report.html"] and after["raw"] == before["raw"]


def test_links_are_refused_and_what_they_lead_to_is_left_as_it_was(tmp_path: Path) -> None:
    (others := tmp_path / "others").mkdir(mode=0o755)
    (file := others / "file").touch(0o644)
    run = RunStore(tmp_path / "results").create("t", "c")
    os.symlink(file, run.path / "x")
    os.symlink(others, run.path / "y")
    with refusal(StoreError, "not-a-file", run.path / "x"):
        run.commit()
    assert (others.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o755, 0o644)


def test_a_bad_manifest_names_the_field(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"schema_version": 2}')
    with pytest.raises(StoreError, match="schema_version"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "c:\\x", "x" * 240, "A/b"])
def test_a_file_that_no_manifest_can_hold_makes_no_valid_run(tmp_path: Path, name: str) -> None:
    """Such a run was called valid, and no command could read it."""
    with pytest.raises(StoreError) as refused, RunStore(tmp_path).create("t", "c") as run:
        (run.path / "a").mkdir()
        (run.path / "a" / "b").write_text("recorded")
        (run.path / name).parent.mkdir(exist_ok=True)
        (run.path / name).write_text("recorded")
        run.commit()
    manifest = read_manifest(run.path)
    assert str(refused.value).isprintable() and run.path.suffix == ".partial"
    assert (manifest.status, len(manifest.reasons), len(manifest.files)) == ("interrupted", 1, 1)


def test_folders_in_place_of_its_own_files_do_not_stop_a_run(tmp_path: Path) -> None:
    with RunStore(tmp_path).create("t", "c") as run:
        (run.path / "recorded").write_text("x")
        for name in ("manifest.json", ".ballast"):
            (run.path / name).unlink()
            (run.path / name / "inner").mkdir(parents=True)
        assert {*read_manifest(run.commit()).files} == {"recorded"}


@pytest.mark.parametrize("name", ["manifest.json.new", "logs/scores.json.0123abcd.new", ".ballast"])
def test_a_manifest_holds_no_file_that_is_being_written(tmp_path: Path, name: str) -> None:
    """The next one that writes would remove it, and the run would have lost a file."""
    with RunStore(tmp_path).create("t", "c") as run:
        (run.path / "recorded").write_text("x")
        final = run.commit()
    manifest = json.loads((final / "manifest.json").read_text())
    manifest["files"][name] = manifest["files"]["recorded"]
    (final / "manifest.json").write_text(json.dumps(manifest))
    with refusal(StoreError, "damaged", "files: ", "being written"):
        read_manifest(final)
