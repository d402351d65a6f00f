# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import outliving


@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_ends_with_a_killed_paper(tmp_path: Path, ended_by: signal.Signals) -> None:
    sleeper = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(600)"
    code = f"from sojourn.harness.report import paper; import sys; paper._ended([sys.executable, '-c', {sleeper!r}])"
    code = f"import pathlib; from sojourn.harness.report import paper; paper.CHECKOUT = pathlib.Path('.'); {code}"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.DEVNULL) as made:
        deadline = time.monotonic() + 60
        while not (pid := tmp_path / "pid").exists() or not pid.read_text():
            assert made.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        made.send_signal(ended_by)
        assert made.wait(60)
    assert not outliving([int(pid.read_text())])
