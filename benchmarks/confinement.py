# SPDX-License-Identifier: Apache-2.0
"""What confining a machine costs, and what `seccomp=off` does: ratios of runs in turn, A B A B.

    python -m benchmarks.confinement [--pairs=20] [--browser=PAIRS]

Each row is a job by one way (A) and by another (B), in turn, which a load of the host meets alike: the median of the
pairs' ratios B / A of wall time and of processor time (user and system, all processes of the machine). `--browser` adds
the main job with a short timeline: a browser, its film and a recorder, start and scoring included.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.simulated_time import HERE, cell
from sojourn.hardware import simulation
from sojourn.hardware.confine import confinement
from sojourn.hardware.confine.confinement import Confinement
from sojourn.hardware.images.desktop import ensure_desktop
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.harness.matrix.cells.simulated import run_cell

#: What a program does that is hard for ptrace: processes, libraries, system calls, memory.
_BUSY = """#!/bin/sh
n=0
while [ $n -lt 300 ]; do /usr/bin/env true; n=$((n + 1)); done
python3 -c 'import numpy, cv2'
dd if=/dev/zero of=/dev/null bs=1 count=200000 2>/dev/null
"""


#: A browser that starts, lays out a page with 2000 elements, runs its script and ends.
_BROWSER = """#!/bin/sh
export HOME=/tmp XDG_CACHE_HOME=/tmp
echo '<body><script>for (let n = 0; n < 2000; n++) document.body.append(Object.assign(document.createElement("p"),
    { textContent: Math.sin(n) }))</script>' >/tmp/page.html
chromium --headless --no-sandbox --disable-gpu --dump-dom file:///tmp/page.html | grep -c '<p>' >lines
"""


def spent(job: Callable[[], None]) -> tuple[float, float]:
    """Wall seconds and processor seconds of a job."""

    def processor() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    wall, begun = time.monotonic(), processor()
    job()
    return time.monotonic() - wall, processor() - begun


def by(kind: Confinement, job: Callable[[], None]) -> Callable[[], None]:
    """The same job in machines that are confined so."""

    def run() -> None:
        os.environ[confinement.VARIABLE] = kind
        confinement.confinement.cache_clear()
        confinement.confinement()
        job()

    return run


def one_cell(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_cell(cell(50, 2, seconds), Path(folder), seed=1)


def machine(script: str, untrusted: bool = False) -> None:
    with tempfile.TemporaryDirectory() as name:
        (job := Path(name) / "run").write_text(script)
        job.chmod(0o755)
        simulation.run(ensure_kernel(), ensure_desktop(), Path(name), memory="2G", untrusted=untrusted)


def main_job(*arguments: str) -> None:
    with tempfile.TemporaryDirectory() as results:
        job = [sys.executable, "-m", "pytest", "tests/test_video_harm.py", "-q", "-p", "no:cacheprovider"]
        job += ["--service=youtube", "--timeline=solo:5,cubic:6", f"--results={results}", *arguments]
        subprocess.run(job, cwd=HERE, stdout=subprocess.DEVNULL, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--browser", type=int, default=0, metavar="PAIRS")
    args = parser.parse_args()
    none, spaces, landlock = Confinement.NONE, Confinement.NAMESPACES, Confinement.LANDLOCK
    rows: list[tuple[str, str, Callable[[], None], Callable[[], None], int]] = []
    for seconds in (0.1, 60):
        a = by(none, lambda seconds=seconds: one_cell(seconds))  # type: ignore[misc]
        for kind in (spaces, landlock):
            b = by(kind, lambda seconds=seconds: one_cell(seconds))  # type: ignore[misc]
            rows.append((f"cell of {seconds:g} s", f"none, {kind}", a, b, args.pairs))
    few = max(2, args.pairs // 4)
    for name, script in (("forks, imports, reads", _BUSY), ("a page in a browser", _BROWSER)):
        a, b, ptrace = (
            by(kind, lambda script=script, untrusted=untrusted: machine(script, untrusted))  # type: ignore[misc]
            for kind, untrusted in ((none, False), (spaces, False), (spaces, True))
        )
        rows += [(name, "none, namespaces", a, b, few), (name, "seccomp, ptrace", b, ptrace, few)]
    if args.browser:
        rows.append(("main job", "none, namespaces", by(none, main_job), by(spaces, main_job), args.browser))
    table = Table("job", "A, B", "pairs", "wall s, A", "B", "B / A", "processor s, A", "B", "B / A")
    for name, ways, first, second, pairs in rows:
        first()  # fills the page cache
        seen = [(spent(first), spent(second)) for _ in range(pairs)]
        shown = []
        for which in (0, 1):
            a_s, b_s = ([pair[side][which] for pair in seen] for side in (0, 1))
            ratio = statistics.median(b / a for a, b in zip(a_s, b_s, strict=True))
            shown += [f"{statistics.median(a_s):.3f}", f"{statistics.median(b_s):.3f}", f"{ratio:.3f}"]
        table.add_row(name, ways, str(pairs), *shown)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
