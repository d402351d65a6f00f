# SPDX-License-Identifier: Apache-2.0
"""Labs in real time on one machine know of each other, also those of other processes, and take other cores."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hardware.machine.cores import Cores
from hardware.machine.files import CHECKOUT

HOLD = """
from hardware.machine.cores import Cores
with Cores(one_core=True) as cores:
    print(cores._last, cores.beside, flush=True)
    input()
"""


def other() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_the_second_lab_is_told_of_the_first_and_takes_another_core() -> None:
    with Cores(one_core=True) as before:
        if before.beside:
            pytest.skip(before.beside)
    with other() as first:
        assert first.stdout and first.stdin
        core = int(first.stdout.readline().split()[0])
        with Cores(one_core=True) as second:
            assert f"process {first.pid} of " in second.beside
            # Beside this one there may be labs of other tests.
            assert second._last != core if second._claim else "they share a processor" in second.beside
        first.kill()
    with Cores(one_core=True) as alone:
        assert f"process {first.pid} " not in alone.beside
