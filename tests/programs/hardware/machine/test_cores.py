# SPDX-License-Identifier: Apache-2.0
"""Labs in real time on one machine know of each other, also those of other processes, and take other cores."""

from __future__ import annotations

import subprocess
import sys

from sojourn.hardware.machine.cores import Cores
from sojourn.hardware.machine.files import CHECKOUT

HOLD = """
from sojourn.hardware.machine.cores import Cores
with Cores(one_core=True) as cores:
    print(cores._last, cores.sharing, flush=True)
    input()
"""


def test_the_second_lab_is_told_of_the_first_and_takes_another_core() -> None:
    # Claims are names in a network namespace: in one of its own no lab of another test is in the way, or disturbed.
    command = ["unshare", "--map-root-user", "--net", sys.executable, "-c", f"import {__name__} as test; test.claim()"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def claim() -> None:
    """Claim a core here while another process has one, then after its end."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout and first.stdin
        said = first.stdout.readline().split()
        assert len(said) == 1  # the first one knows of nobody
        with Cores(one_core=True) as second:
            assert f"process {first.pid} of " in second.sharing
            assert second._last != int(said[0]) if second._claim else "they share a processor" in second.sharing
        first.kill()
    with Cores(one_core=True) as alone:
        assert not alone.sharing
