# SPDX-License-Identifier: Apache-2.0
"""Two seeds of the main job side by side, and one of them again by itself: the same bytes, whoever is beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.store.manifest import read_manifest
from sojourn.harness.store.runs import RunStore
from sojourn.harness.store.same_bytes import NOT_COMPARED
from tests.lab.one_run.conftest import Repeated

pytestmark = pytest.mark.lab


def test_a_seed_gives_the_same_bytes_beside_another_and_alone(repeated: Repeated, tmp_path: Path) -> None:
    alone = tmp_path / "elsewhere" / "alone"
    first, second = (read_manifest(run).files["client.pcapng.zst"] for run in repeated.runs.values())
    assert first != second

    command = [sys.executable, "-m", "sojourn.harness.cli", "rerun", str(repeated.runs[4]), f"--results={alone}"]
    again = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0, again.stdout + again.stderr
    (run,) = RunStore(alone).runs()
    compared = len(set(read_manifest(run).files) - set(NOT_COMPARED))
    assert compared > 15 and f"{run}: all {compared} files are identical" in again.stdout
