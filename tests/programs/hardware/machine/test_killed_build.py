# SPDX-License-Identifier: Apache-2.0
"""A build that is killed leaves nothing that holds up the next one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from hardware.machine import cache


def test_a_killed_build_leaves_no_entry_and_no_lock(tmp_path: Path) -> None:
    entry = tmp_path / "entry"

    def killed(scratch: Path) -> None:
        (scratch / "half").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        cache.build_once(entry, killed)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not entry.exists()
    cache.build_once(entry, lambda scratch: (scratch / "made").touch())
    assert [path.name for path in entry.iterdir()] == ["made"]
