# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hardware.machine.files import CHECKOUT
from harness.store.manifest import StoreError, read_manifest, reseal
from harness.store.runs import RunStore


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
        run.void("recorder missed 3 % of frames")
        manifest = read_manifest(run.commit())
    assert (manifest.status, manifest.reasons) == ("void", ["recorder missed 3 % of frames"])


def test_a_failed_run_keeps_its_files_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), RunStore(tmp_path).create("t", "c") as run:
        (run.path / "player.jsonl").write_text("{}\n")
        _ = 1 / 0
    manifest = read_manifest(run.path)
    assert run.path.suffix == ".partial" and list(manifest.files) == ["player.jsonl"]
    assert (manifest.status, manifest.reasons) == ("interrupted", ["ZeroDivisionError: division by zero"])


def test_a_killed_run_still_says_that_it_did_not_end(tmp_path: Path) -> None:
    script = """
        import os, signal, sys; from pathlib import Path; from harness.store.runs import RunStore
        run = RunStore(Path(sys.argv[1])).create("t", "c"); (run.path / "x").write_text("kept")
        os.kill(os.getpid(), signal.SIGKILL)"""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], cwd=CHECKOUT, check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    manifest = read_manifest(left)
    assert left.suffix == ".partial" and (left / "x").read_text() == "kept"
    assert manifest.status == "interrupted" and "did not reach its end" in manifest.reasons[0]


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


@pytest.mark.parametrize(("folder", "says"), [("/sys/sojourn", "cannot be written"), ("/etc/hostname/x", "no folder")])
def test_an_unwritable_folder_is_one_clear_line(folder: str, says: str) -> None:
    with pytest.raises(StoreError, match=says) as error:
        RunStore(Path(folder)).create("t", "c")
    assert folder in str(error.value) and "\n" not in str(error.value)


def test_too_little_space_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="a run needs"):
        RunStore(tmp_path / "r").create("t", "c", needed=1 << 60)
    assert list((tmp_path / "r").iterdir()) == []


def test_a_full_disk_keeps_what_was_recorded() -> None:
    script = """
        import subprocess, sys, tempfile; from pathlib import Path
        from harness.store.manifest import StoreError, read_manifest
        from harness.store.runs import RunStore
        disk = Path(tempfile.mkdtemp())
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)], check=True)
        run = RunStore(disk).create("t", "c", needed=1000)
        run.check_space(floor=1000)
        try:
            with run, (run.path / "pcap").open("wb", buffering=0) as file:
                (run.path / "player.jsonl").write_text("kept")
                while file.write(bytes(65536)):
                    pass
                file.write(b"x")
        except StoreError as error:
            print(error)
        try:
            run.check_space()
        except StoreError as error:
            print(error)
        manifest = read_manifest(run.path)
        print(manifest.status, sorted(manifest.files), manifest.reasons)"""
    done = subprocess.run(
        ["unshare", "-Urm", sys.executable, "-c", textwrap.dedent(script)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare failed" in done.stderr:
        pytest.skip("no user namespaces here")
    assert done.returncode == 0, done.stderr
    full, low, manifest = done.stdout.splitlines()
    assert full.startswith("disk full at") and low.startswith("disk full: ")
    assert manifest.startswith("interrupted ['pcap', 'player.jsonl']") and "No space left" in manifest


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


def test_links_are_refused(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create("t", "c")
    os.symlink("/etc/passwd", run.path / "x")
    with pytest.raises(StoreError, match="a link"):
        run.commit()


def test_a_bad_manifest_names_the_field(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"schema_version": 2}')
    with pytest.raises(StoreError, match="schema_version"):
        read_manifest(tmp_path)
