# SPDX-License-Identifier: Apache-2.0
"""What cannot work ends with one clear line and a non-zero exit code, and keeps what was recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.store.manifest import read_manifest
from sojourn.scoring.picture.recording import frame_times
from tests.lab.main_job import run_main_job
from tests.tiers import first

pytestmark = pytest.mark.lab

SOLO_S = 5
FRAGMENT_S = 1
"""Of a recording that goes on (captures/screen.py)."""


@pytest.mark.parametrize(
    ("arguments", "line"),
    first(
        2,
        [
            (["--service=youtub"], "did you mean youtube?"),
            (["--qdisc=fq_codle"], '--qdisc: unknown qdisc "fq_codle"; did you mean fq_codel'),
            (["--qdisc=dualpi2 target soon"], "--qdisc: "),
            (["--rate=12"], '--rate: "12" has no unit; write 12mbit'),
            (["--rate=1kbit"], "--rate: "),
            (["--rtt=1h"], "--rtt: "),
            (["--timeline=prague:10"], "--timeline: "),
            (["--repeat=0"], "--repeat: '0' is out of range; give 1 to 1000"),
            (["--lab=apu", "--lab-file=/no/lab.toml"], "--lab-file: /no/lab.toml: No such file"),
        ],
    ),
)
def test_bad_options_are_refused_before_anything_starts(tmp_path: Path, arguments: list[str], line: str) -> None:
    done = run_main_job(tmp_path / "results", *arguments)
    said = done.stderr + done.stdout
    assert done.returncode != 0
    assert line in said, said
    assert "conftest.py" not in said
    assert not (tmp_path / "results").exists(), "a run was begun"


def test_results_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (file := tmp_path / "file").write_text("not a folder")
    done = run_main_job(file / "results")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"--results {file / 'results'}: is not a folder, or is inside a file" in done.stderr
    assert "FAILURES" not in done.stdout


@pytest.mark.parametrize(
    ("program", "asks", "line"),
    first(
        1,
        [
            ("chromium", "--driver=playwright", "--lab=virtual: 1 package is missing; install it with: "),
            (
                "chromedriver",
                "--driver=selenium",
                "--lab=virtual --driver=selenium: 1 package is missing; ",
            ),
            ("obs", "--recorder=obs", "--lab=virtual --recorder=obs: 1 package is missing; install it with: "),
        ],
    ),
)
def test_a_missing_program_is_named_with_the_fix(tmp_path: Path, program: str, asks: str, line: str) -> None:
    """In a mount namespace of its own the program is hidden."""
    (empty := tmp_path / "empty").touch(0o644)
    job = [sys.executable, "-m", "pytest", "tests/test_video_harm.py", "-p", "no:cacheprovider",
           "--service=youtube", "--lab=virtual", asks, f"--results={tmp_path / 'results'}"]  # fmt: skip
    hidden = ["unshare", "-Urm", "sh", "-c", f'mount --bind {empty} /usr/bin/{program} && exec "$@"', "sh", *job]
    done = subprocess.run(hidden, cwd=CHECKOUT, capture_output=True, text=True, timeout=120)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert line in done.stderr, done.stdout + done.stderr
    assert not (tmp_path / "results").exists(), "a run was begun"
    assert "FAILURES" not in done.stdout


def test_full_disk_keeps_what_was_recorded(tmp_path: Path) -> None:
    """On a tmpfs that another file fills in mid-run, the run stops by itself while its files can still be closed."""
    (disk := tmp_path / "disk").mkdir()
    (kept := tmp_path / "kept").mkdir()
    # The mount goes with its namespace: what is to be looked at is copied out of it.
    script = f"""mount -t tmpfs -o size=360m tmpfs {disk} || exit 99
( until ls {disk}/*/timeline.json; do sleep 0.2; done
cp {disk}/*/screen.part.mp4 {kept}/before.mp4
dd if=/dev/zero of={disk}/filler bs=1M ) >/dev/null 2>&1 &
filler=$!
"$@"
code=$?
kill $filler 2>/dev/null
rm -f {disk}/filler
cp {disk}/*/manifest.json {disk}/*/screen*.mp4 {kept}
exit $code
"""
    job = [sys.executable, "-m", "pytest", "tests/test_video_harm.py", "-p", "no:cacheprovider",
           "--service=youtube", f"--results={disk}", "--buffer=2", f"--timeline=solo:{SOLO_S},cubic:60"]  # fmt: skip
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, "sh", *job], cwd=CHECKOUT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode not in (0, 99), done.stderr
    assert "disk full" in done.stdout, done.stdout + done.stderr
    manifest = read_manifest(kept)
    assert manifest.status == "interrupted"
    assert {"timeline.json", "client.pcap", "screen.part.mp4"} <= set(manifest.files)
    before, times = (frame_times(kept / name) for name in ("before.mp4", "screen.part.mp4"))
    # The solo phase was over when the disk began to fill; what is not yet a whole fragment is not in the file.
    assert before[-1] > SOLO_S - 2 * FRAGMENT_S and times[: len(before)] == before
