# SPDX-License-Identifier: Apache-2.0
"""A bundle and what an export leaves when it is killed are their owner's alone, and go with the next export there."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.bundle.archive import check
from sojourn.harness.bundle.export import ExportRequest
from sojourn.harness.cli import app
from sojourn.harness.store.manifest import PARTIAL
from sojourn.harness.store.runs import RunStore


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def long(results: Path) -> Path:
    """A run whose export takes a while."""
    with RunStore(results).create("t", "long") as run:
        solo = {"name": "solo", "contender": None, "start": 0, "end": 9}
        (run.path / "timeline.json").write_text(json.dumps({"phases": [solo]}))
        with (run.path / "screen.mp4").open("wb") as file:
            file.truncate(1 << 30)
        return run.commit()


def test_what_a_killed_export_left_is_swept_by_that_of_another_run(run: Path) -> None:
    results, slow = run.parent, long(run.parent)
    before = os.umask(0o022)
    try:
        command = [sys.executable, "-m", "sojourn.harness.cli", "bundle", "export", str(slow), "--anonymise"]
        with subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.DEVNULL) as exporting:
            while not (begun := list(results.glob(f".*-files{PARTIAL}/screen.mp4"))):
                assert exporting.poll() is None
            exporting.send_signal(signal.SIGSTOP)  # it goes no further while others work, however slowly
            scratch, partial = (
                begun[0].parent,
                results / f"{ExportRequest(anonymise=True).name(slow.name)}.tar.zst{PARTIAL}",
            )
            assert (mode(scratch), mode(partial)) == (0o700, 0o600)
            done = CliRunner().invoke(app, ["bundle", "export", str(run)])
            assert done.exit_code == 0 and scratch.exists() and partial.exists()  # it is at work
            exporting.kill()
        archive = results / f"{run.name}.tar.zst"
        assert mode(archive) == 0o600
        archive.unlink()
        command = [sys.executable, "-m", "sojourn.harness.cli", "bundle", "export", str(run)]
        again = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    finally:
        os.umask(before)
    assert again.returncode == 0 and check(archive)
    assert f"{partial}: removed, left by a killed export" in again.stderr.replace("\n", "")
    assert sorted(results.iterdir()) == sorted([run, slow, archive])
