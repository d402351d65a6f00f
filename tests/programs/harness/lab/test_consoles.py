# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from sojourn.hardware.lab.lab_file import read_lab_file
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.lab.physical import PhysicalLab

EXAMPLE = CHECKOUT / "docs" / "examples" / "labs" / "black-box.toml"


@pytest.mark.parametrize(
    ("serial", "said"),
    [
        ('["sh", "-c", "echo login; exit 3"]', ["box: its console log ends early: sh has ended: no output"]),
        ('["sh", "-c", "echo login; exec sleep 60"]', []),
    ],
)
def test_a_console_that_ends_during_a_run_is_reported(tmp_path: Path, serial: str, said: list[str]) -> None:
    (file := tmp_path / "lab.toml").write_text(EXAMPLE.read_text().replace("[box]", f"[box]\nserial = {serial}"))
    heard = list[str]()
    with ExitStack() as stack:
        PhysicalLab(read_lab_file(file), tmp_path, heard.append)._keep_consoles(stack)
        (log,) = (tmp_path / "logs").glob("console-box*")
        deadline = time.monotonic() + 60
        while not log.read_bytes() or (said and any(it.name == "ConsoleLog" for it in threading.enumerate())):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert log.read_bytes() == b"login\n" and heard == said
