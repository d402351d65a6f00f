# SPDX-License-Identifier: Apache-2.0
"""Threads of a worker that has just begun name what decides their jobs at once, as where these jobs were made."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.matrix.cells.cell_run import SimulatedInputs, scoring_digest
from tests.unit.harness.matrix import cell_runs

#: Where each thread parsed the sources, 50 of 50 workers failed.
THREADS, TIMES = 8, 8

#: Each worker is a fork of a process that has imported the code and called none of it: all caches are as at its start.
#: It measures its garbage collection as Dask's workers do, in Python: there a thread that parses gives way to another.
WORKERS = f"""
import os, pickle, sys, threading, traceback
from distributed.gc import enable_gc_diagnosis
from sojourn.harness.matrix.cells import cell_run
from sojourn.harness.engine import dask

def in_threads(jobs):
    begin, wrong = threading.Barrier(len(jobs)), []

    def work(job, sources, scoring):
        begin.wait()
        try:
            assert cell_run.scoring_digest(job) == scoring
            assert sources.contents()
        except BaseException:
            wrong.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=job) for job in jobs]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return wrong

shipped = sys.stdin.buffer.read()
failed = 0
for _ in range({TIMES}):
    if not (child := os.fork()):
        enable_gc_diagnosis()
        wrong = in_threads([pickle.loads(shipped) for _ in range({THREADS})])
        print("".join(wrong[:1]), file=sys.stderr, end="", flush=True)
        os._exit(len(wrong) > 0)
    failed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
sys.exit(f"{{failed}} of {TIMES} workers failed" if failed else 0)
"""


def test_eight_new_threads_at_once_in_eight_workers(tmp_path: Path) -> None:
    job = cell_runs.job("one")
    shipped = pickle.dumps((job, SimulatedInputs().files, scoring_digest(job)))
    command = [sys.executable, "-c", WORKERS]
    done = subprocess.run(command, input=shipped, cwd=CHECKOUT, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
