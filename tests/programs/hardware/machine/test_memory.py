# SPDX-License-Identifier: Apache-2.0
"""What is left of memory is told by the control group where that gives less than the machine has."""

from __future__ import annotations

import subprocess
import sys

import psutil

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.memory import available_bytes
from tests.lab.control_group import little_memory

ASK = """
from sojourn.hardware.machine.memory import available_bytes
from sojourn.hardware.simulation import SimulationError, check_memory
print(available_bytes())
held = bytearray(100 << 20)
print(available_bytes())
try:
    check_memory("1G")
except SimulationError as refused:
    print(refused)
"""


def test_a_machine_without_limits_has_what_it_has() -> None:
    assert 0 < available_bytes() <= psutil.virtual_memory().total


def test_a_control_group_leaves_less() -> None:
    with little_memory(500 << 20) as within:
        command = [*within, sys.executable, "-c", ASK]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    before, after, refusal = done.stdout.splitlines()
    assert 300 << 20 < int(before) <= 500 << 20 and 90 << 20 < int(before) - int(after) < 130 << 20
    assert refusal.startswith("a simulated machine needs 1024 MB, but only 3") and "of memory are free" in refusal
