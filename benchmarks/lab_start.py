# SPDX-License-Identifier: Apache-2.0
"""How long a warm start of the virtual lab takes until the first ping crosses, beside the start of one bare process.

Prints seconds and the ratio to a bare `unshare` with the same namespaces, which tells a slow machine from a slow lab.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from sojourn.harness.lab.make import virtual_lab

RUNS = 10


def lab_start_s() -> float:
    """Return the seconds from the first command to the first ping that crosses the router."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        with virtual_lab(Path(folder)) as lab:
            lab.client.run(["ping", "-c", "1", "-W", "2", lab.addresses.server])
            return time.monotonic() - begun


def bare_s() -> float:
    """Return the seconds that making and leaving the same kind of namespaces takes without a lab in them."""
    begun = time.monotonic()
    subprocess.run(["unshare", "-Urnmpf", "--mount-proc", "true"], check=True)
    return time.monotonic() - begun


def main() -> None:
    lab_start_s()  # fills the cache and the page cache
    pairs = [(lab_start_s(), bare_s()) for _ in range(RUNS)]
    lab, ratio = [pair[0] for pair in pairs], [a / b for a, b in pairs]
    print(f"lab start to first ping: median {statistics.median(lab):.2f} s, min {min(lab):.2f}, max {max(lab):.2f}")
    print(
        f"ratio to bare namespaces: median {statistics.median(ratio):.0f}, min {min(ratio):.0f}, max {max(ratio):.0f}"
    )


if __name__ == "__main__":
    main()
