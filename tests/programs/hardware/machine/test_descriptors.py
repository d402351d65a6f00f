# SPDX-License-Identifier: Apache-2.0
"""The limit of open files: raised as far as it may be, and refused before anything starts where that is too low."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from sojourn.hardware.machine.files import CHECKOUT

ENSURE = """
import resource, sys
from sojourn.hardware.machine.descriptors import DescriptorError, ensure
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
try:
    ensure(1024, "a simulated machine")
except DescriptorError as error:
    print(error)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def ensured(soft: int, hard: int) -> list[str]:
    command = [sys.executable, "-c", ENSURE, str(soft), str(hard)]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize(("soft", "hard"), [(64, 4096), (1024, 4096), (4096, 4096)])
def test_the_soft_limit_becomes_the_hard_one(soft: int, hard: int) -> None:
    assert ensured(soft, hard) == [f"{hard} {hard}"]


def test_a_hard_limit_that_is_too_low_is_told_with_the_need() -> None:
    says, left = ensured(64, 512)
    assert says.startswith("open files: a simulated machine needs 1024, but the limit is 512; raise the hard limit")
    assert left == "64 512"


def test_it_is_refused_before_a_run_starts(tmp_path: object) -> None:
    """As the options are looked at: `ulimit -n 64` used to end in an ImportError of the guest's."""

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    command = [sys.executable, "-m", "pytest", "-q", "-n0", "tests/test_video_harm.py", f"--results={tmp_path}"]
    command += ["-p", "no:cacheprovider", "--timeline=solo:5,cubic:4"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, preexec_fn=few, check=False)
    assert done.returncode == 4 and "open files: a simulated machine needs 1024" in done.stderr + done.stdout
