# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys

import pytest

from sojourn.hardware.machine.files import CHECKOUT

#: Whoever presses Ctrl-C while a module is read.
STOPPED = """
import signal, sys
module = sys.argv[1]
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
from sojourn.harness.start import main
sys.argv[1:] = ["bundle", "import", "none.tar.zst"]
main()
"""


@pytest.mark.parametrize("module", ["typer", "sojourn.harness.cli.verdicts", "sojourn.harness.bundle.archive"])
def test_ctrl_c_is_one_line_while_modules_are_read(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, module], cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.count("\n") <= 1 and "Traceback" not in done.stderr
