# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import signal
import subprocess
import sys

WAITS = """
import threading
from harness.ctrl_c import end_waits
end_waits()
print("waits", flush=True)
threading.Event().wait()
"""


def test_ctrl_c_ends_a_wait_without_a_limit() -> None:
    """Without end_waits() this one goes on for ever."""
    process = subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGINT)
    try:
        assert "KeyboardInterrupt" in process.communicate(timeout=10)[1]
    finally:
        process.kill()
