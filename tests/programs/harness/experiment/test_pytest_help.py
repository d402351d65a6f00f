# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.options.model import OPTIONS


def test_pytest_lists_every_option() -> None:
    """A share such as 0.5% in a help text is no place for argparse to put something."""
    done = subprocess.run([sys.executable, "-m", "pytest", "--help"], cwd=CHECKOUT, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    assert all(f"  --{option.name}" in done.stdout for option in OPTIONS) and "0.5%" in done.stdout
