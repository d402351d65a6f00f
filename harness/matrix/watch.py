# SPDX-License-Identifier: Apache-2.0
"""A matrix that is run again whenever a user's own kernel files change, each time compared with the run before."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from sojourn.hardware.kernel_build import own_files
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.scratch import scratch_folder
from sojourn.harness.matrix.matrix import MatrixError
from sojourn.harness.matrix.matrix_plan import MatrixPlan, run_and_report
from sojourn.harness.terminal import complain

#: How often a folder is read even if the kernel reports no change, ms: a change during a run is reported to nobody.
_LOOK_MS = 1000


def watch(plan: MatrixPlan) -> NoReturn:
    """Run a plan now and after every change of the files in its kernel source, until the process is interrupted.

    Each version is compared with the last one that ran. An error is printed, and the next change awaited. The runs are
    of copies of the files, so that a change meanwhile does not mix versions. Raises MatrixError without such a folder,
    OSError.
    """
    folder = plan.kernel_source
    if not folder or not own_files.has_own_files(folder):
        raise MatrixError("--watch: add --kernel-source=FOLDER with your sch_*.c or tcp_*.c", code="missing")
    copies = scratch_folder("-watch")
    try:
        before = plan.compare_with
        for number, files in enumerate(_versions(folder)):
            began, copy = time.monotonic(), copies / str(number) / folder.name
            copy.mkdir(parents=True)
            for name, content in files.items():
                (copy / name).write_bytes(content)
            now = replace(plan, kernel_source=copy, brief=True)
            if before != now.folder:  # else a change was undone
                now = replace(now, compare_with=before)
            if _run(now, copy, folder):
                before = now.folder
            took = time.monotonic() - began
            print(f"{took:.1f} s; waiting for a change in {folder} (Ctrl-C ends)", file=sys.stderr)
        raise KeyboardInterrupt  # the watch of the folder ended by a signal
    finally:
        shutil.rmtree(copies, ignore_errors=True)


def _run(plan: MatrixPlan, copy: Path, folder: Path) -> bool:
    """Run a plan and return whether it has results; an error names the user's files instead of their copies."""
    try:
        failed = run_and_report(plan)
    except CodedError as wrong:
        complain(str(wrong).replace(str(copy), str(folder)))
        return False
    return len(failed) < len(plan.cells) * len(plan.seeds)


def _versions(folder: Path) -> Iterator[dict[str, bytes]]:
    """Yield the C files and patches of a folder by name now, and whenever they have changed."""
    from watchfiles import watch as changes

    last = _files(folder)
    yield last
    for _ in changes(folder, recursive=False, yield_on_timeout=True, rust_timeout=_LOOK_MS):
        if (now := _files(folder)) != last:
            last = now
            yield now


def _files(folder: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for path in sorted([*folder.glob("*.[ch]"), *folder.glob(own_files.PATCH)]):
        with suppress(OSError):  # an editor replaces it
            files[path.name] = path.read_bytes()
    return files
