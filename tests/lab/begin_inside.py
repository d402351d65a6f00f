# SPDX-License-Identifier: Apache-2.0
"""What an experiment sees of clock and random numbers from its beginning on, with something done before or without.

The folder has a file `before`: how many files to look for in vain, how many clock readings and random numbers to take.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path

from sojourn.harness.lab.guest_job import begin

EVIDENCE = Path("/evidence")


def main() -> None:
    looks, readings, numbers = map(int, (EVIDENCE / "before").read_text().split())
    for look in range(looks):
        with suppress(FileNotFoundError):
            os.stat(f"/nowhere/{look}")
    for _ in range(readings):
        time.monotonic_ns()
    for _ in range(numbers):
        os.urandom(8)
    ready_ns = time.monotonic_ns()
    begin(1)
    times = [time.monotonic_ns() for _ in range(1000)]
    for _ in range(20):
        time.sleep(0.001)
        times.append(time.monotonic_ns())
    seen = {"times": times, "random": [os.urandom(8).hex() for _ in range(20)]}
    (EVIDENCE / "seen.json").write_text(json.dumps({"ready_ns": ready_ns, "seen": seen}))


if __name__ == "__main__":
    main()
