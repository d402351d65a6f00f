# SPDX-License-Identifier: Apache-2.0
"""Watch the host: CPU use, the longest scheduling stall, suspension and clock steps, per second (host.jsonl).

It runs as a separate process, so that the harness's interpreter lock does not count as a host stall.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from sojourn.hardware.machine.process import Process

TICK_S = 0.005
PERIOD_S = 1.0


class _Stall(threading.Thread):
    """Wakes every 5 ms and keeps the largest lateness since it was last read."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._worst = 0.0

    def run(self) -> None:
        due = time.monotonic() + TICK_S
        while True:
            time.sleep(max(0.0, due - time.monotonic()))
            now = time.monotonic()
            self._worst = max(self._worst, now - due)
            # A late tick is counted once, not again in every tick that it delays.
            due = max(due, now) + TICK_S

    def take(self) -> float:
        worst, self._worst = self._worst, 0.0
        return worst


def _ahead_ns() -> tuple[int, int]:
    """Return how far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC, and the wall clock ahead of CLOCK_BOOTTIME.

    CLOCK_MONOTONIC stops while the host is suspended. Of several tries, the least interrupted one counts.
    """
    tries = []
    for _ in range(5):
        begun = time.monotonic_ns()
        boot, wall = time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.time_ns()
        tries.append((time.monotonic_ns() - begun, boot - begun, wall - boot))
    _, suspended, wall_ahead = min(tries)
    return suspended, wall_ahead


def watch() -> None:
    """Write one line per second to stdout until killed, the first after 0.1 s.

    Keys: t (Unix s), cpu_cores_used and cpu_idle_cores (cores of the whole host, mean over the second),
    cpu_steal_cores (taken by the hypervisor), stall_ms (largest lateness of a 5 ms timer in the second), suspended_ms
    (how long the host was suspended), clock_step_ms (how far the wall clock was set forward).
    """
    cores = psutil.cpu_count() or 1
    stall = _Stall()
    before, due = psutil.cpu_times(), time.monotonic() + PERIOD_S / 10
    suspended, wall_ahead = _ahead_ns()
    stall.start()
    while True:
        time.sleep(max(0.0, due - time.monotonic()))
        due += PERIOD_S
        now = psutil.cpu_times()
        spent = [b - a for a, b in zip(before[:8], now[:8], strict=True)]
        _user, _nice, _system, idle, iowait, _irq, _softirq, steal = spent
        share = cores / (sum(spent) or 1.0)
        before = now
        (slept, set_off), (suspended, wall_ahead) = (suspended, wall_ahead), _ahead_ns()
        line = {
            "t": round(time.time(), 3),
            "cpu_cores_used": round((sum(spent) - idle - iowait - steal) * share, 3),
            "cpu_idle_cores": round((idle + iowait) * share, 3),
            "cpu_steal_cores": round(steal * share, 3),
            "stall_ms": round(stall.take() * 1000, 3),
            "suspended_ms": round((suspended - slept) / 1e6, 3),
            "clock_step_ms": round((wall_ahead - set_off) / 1e6, 3),
        }
        print(json.dumps(line), flush=True)


class HostWatch:
    """The watcher as a separate process. Create one with `start`, end it with `stop`."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @classmethod
    def start(cls, run: Path, *, wrap: Sequence[str] = ()) -> HostWatch:
        """Write run/host.jsonl from now on. Raises ProcessError if it does not start."""
        # Only here: the watcher itself runs outside the project's module path.
        from sojourn.hardware.machine.place import LOCAL
        from sojourn.hardware.machine.process import Process

        # -P: the script must not import its neighbours as modules.
        command = [sys.executable, "-P", __file__]
        file = run / "host.jsonl"
        return cls(Process.start(LOCAL, command, stdout=file, ready="stall_ms", ready_in="stdout", wrap=wrap))

    def stop(self) -> None:
        """Stop the watcher."""
        self.process.stop(signal.SIGTERM)


if __name__ == "__main__":
    watch()
