# SPDX-License-Identifier: Apache-2.0
"""A run whose disk is full, or that was killed, keeps what it recorded."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.bundle.archive import verify
from sojourn.harness.store.manifest import MANIFEST, PARTIAL, Manifest, read_manifest
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunStore


def test_a_full_disk_keeps_what_was_recorded() -> None:
    script = """
        import subprocess, sys, tempfile; from pathlib import Path
        from sojourn.harness.store.manifest import StoreError, read_manifest
        from sojourn.harness.store.runs import RunStore
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
        print(manifest.status, sorted(manifest.files), [reason.code for reason in manifest.reasons])"""
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
    assert manifest.startswith("interrupted ['pcap', 'player.jsonl']") and "disk-full" in manifest


def test_a_run_that_was_killed_before_it_recorded_anything_is_removed_by_the_next(tmp_path: Path) -> None:
    script = """
        import os, signal, sys; from pathlib import Path; from sojourn.harness.store.runs import RunStore
        run = RunStore(Path(sys.argv[1])).create("t", "c"); (run.path / "setup.log").write_text("begun")
        os.kill(os.getpid(), signal.SIGKILL)"""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], cwd=CHECKOUT, check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    following = RunStore(tmp_path).create("t", "c")
    assert list(tmp_path.iterdir()) == [following.path] and not (left / "setup.log").exists()


def test_a_killed_run_still_says_that_it_did_not_end(tmp_path: Path) -> None:
    script = """
        import os, signal, sys; from pathlib import Path; from sojourn.harness.store.runs import RunStore
        run = RunStore(Path(sys.argv[1])).create("t", "c"); (run.path / "x").write_text("kept")
        os.kill(os.getpid(), signal.SIGKILL)"""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], cwd=CHECKOUT, check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    manifest = read_manifest(left)
    assert left.suffix == ".partial" and (left / "x").read_text() == "kept"
    assert manifest.status == "interrupted" and [reason.code for reason in manifest.reasons] == ["killed"]


#: A run whose files take a while to hash, stopped by Ctrl-C and once more as its manifest is made; or in its commit.
STOPPED = """
import signal, sys
from pathlib import Path
from sojourn.harness.store import runs
from sojourn.harness.store.runs import RunStore

runs._PATIENCE_S = float(sys.argv[4])
try:
    with RunStore(Path(sys.argv[1])).create("t", "c") as run:
        with (run.path / "screen.mp4").open("wb") as file:
            file.truncate(int(sys.argv[3]))
        print("recorded", flush=True)
        if sys.argv[2] == "commit":
            run.commit()
        signal.pause()
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def stopped(results: Path, when: str, size: int, patience_s: float) -> tuple[Path, Manifest]:
    """A run stopped so with a file of that size, and its manifest."""
    command = [sys.executable, "-c", STOPPED, str(results), when, str(size), str(patience_s)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "recorded\n"

        def hashing() -> bool:
            with suppress(OSError):
                return any("screen.mp4" in str(fd.readlink()) for fd in Path(f"/proc/{process.pid}/fd").iterdir())
            return False

        if when == "recording":
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + 120
        while not hashing():
            assert process.poll() is None and time.monotonic() < deadline, process.stderr and process.stderr.read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "stopped\n", "")
    (run,) = results.iterdir()
    return run, read_manifest(run)


@pytest.mark.parametrize("when", ["recording", "commit"])
def test_hashes_that_take_long_hold_nobody_up(tmp_path: Path, when: str) -> None:
    run, manifest = stopped(tmp_path / "results", when, 1 << 40, 0.5)
    assert run.suffix == PARTIAL and manifest.files == {}
    assert [reason.code for reason in manifest.reasons] == ["stopped", "not-hashed"]


@pytest.mark.parametrize("when", ["recording", "commit"])
def test_ctrl_c_once_more_waits_for_the_manifest(tmp_path: Path, when: str) -> None:
    run, manifest = stopped(tmp_path / "results", when, 1 << 30, 60)
    if when == "recording":
        assert run.suffix == PARTIAL and manifest.status == "interrupted"
        assert manifest.reasons == [Reason.of("stopped", "stopped by Ctrl-C")]
    else:
        assert run.suffix != PARTIAL and manifest.status == "valid"  # all of it was there
    assert {*manifest.files} == {"screen.mp4"} and {path.name for path in run.iterdir()} == {"screen.mp4", MANIFEST}


#: Renews a file and its hash in a run's manifest, and reads that as often; prints what went wrong, by how often.
RESEALED = """
import collections, sys
from pathlib import Path
from sojourn.hardware.machine.files import replace_file
from sojourn.harness.store.manifest import StoreError, hash_file, read_manifest, reseal
run, name, wrong = Path(sys.argv[1]), sys.argv[2], collections.Counter()
for number in range(100):
    try:
        replace_file(run / name, str(number).encode())
        replace_file(run / "shared", bytes(1 << 16))
        reseal(run, name, "shared")
        if read_manifest(run).files[name] != hash_file(run / name):
            wrong["lost"] += 1
    except (OSError, StoreError) as error:
        wrong[f"{type(error).__name__} {error}"[:100]] += 1
print(dict(wrong))
"""


def test_processes_that_change_a_run_at_once_lose_nothing(tmp_path: Path) -> None:
    """Each renews a file of its own and one that all of them have."""
    names = "report.html", "scores.json", "lab.json"
    with RunStore(tmp_path).create("t", "c") as made:
        for name in (*names, "shared"):
            (made.path / name).write_text("recorded")
        run = made.commit()
    (left := run / "scores.json.0123abcd.new").write_text("of a process that was killed")
    commands = [[sys.executable, "-c", RESEALED, str(run), name] for name in names]
    working = [subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) for command in commands]
    assert [process.communicate(timeout=120)[0] for process in working] == ["{}\n"] * 3
    assert verify(run).files.keys() == {*names, "shared"} and not left.exists()
    assert {path.name for path in run.iterdir()} == {*names, "shared", MANIFEST}
