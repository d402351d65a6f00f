# SPDX-License-Identifier: Apache-2.0
"""`sojourn soak PLAN`: a batch from its plan to its summary and exit code."""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from contextlib import ExitStack
from pathlib import Path

from sojourn.hardware.machine import cache
from sojourn.hardware.machine.files import CHECKOUT, is_full
from sojourn.hardware.machine.requirements import ToolError
from sojourn.hardware.machine.subreaper import adopt_orphans
from sojourn.harness.lab.needs import require_programs
from sojourn.harness.soak import state
from sojourn.harness.soak.loop import Soak, SoakExit, Stop, begin, killed
from sojourn.harness.soak.plan import PlanError, SoakPlan, read_plan
from sojourn.harness.soak.serve import AddressError, StatusPage, address
from sojourn.harness.soak.state import BatchDirectory
from sojourn.harness.store.manifest import StoreError
from sojourn.harness.terminal import complain


def run_plan(plan: Path, hours: float | None, *, new: bool = False, page: str = "off", resume: bool = False) -> int:
    """Run or resume a batch and return the exit code (`SoakExit`, or 128 plus the signal that stopped it)."""
    try:
        at, planned = address(page), read_plan(plan)
        if resume and new:
            raise PlanError("--resume and --new are mutually exclusive; give one", code="conflict")
        if resume and hours is not None:
            raise PlanError("--hours: an interrupted batch keeps its own; omit it with --resume", code="no-effect")
        for cell in planned.cells:
            require_programs(cell.options)
        with state.held(planned.results):
            if last := killed(planned.results):
                _close(planned, last)
            folder = begin(planned, hours, new=new)
            if folder is None and resume:
                print(f"{planned.results}: no interrupted batch with time left")
                return SoakExit.ALL_VALID
            if folder is None:
                raise PlanError("--hours is required for a new batch, for example --hours=10", code="missing")
            cache.doubt()
            adopt_orphans()
            stop = Stop()
            stop.listen()
            with ExitStack() as stack:
                if at:
                    _show(stack, folder, StatusPage(folder, at))
                ended = Soak(planned, folder, _print_line, stop).run()
            _summarise(folder)
    except (PlanError, AddressError, ToolError) as wrong:
        return _failed(wrong, SoakExit.BAD_PLAN)
    except state.BusyError as busy:
        return _failed(busy, SoakExit.BUSY)
    except (state.StateError, StoreError) as broken:
        return _failed(broken, SoakExit.BAD_PLAN)
    except OSError as error:
        return _failed(error, SoakExit.DISK_FULL if is_full(error) else SoakExit.BAD_PLAN)
    except Exception as wrong:  # 1 would mean that the batch ended in order
        traceback.print_exc()
        return _failed(wrong, SoakExit.UNEXPECTED)
    if ended.cause:
        resumed = "; finished runs are kept, the same command resumes the batch" if (ended.code or 0) > 128 else ""
        complain(f"{ended.cause}{resumed}")
    return ended.code or 0


def _show(stack: ExitStack, folder: BatchDirectory, page: StatusPage) -> None:
    """Serve the status page; a batch continues even if the port is in use."""
    try:
        _print_line(f"{folder.path}; status: {stack.enter_context(page).url}")
    except AddressError as taken:
        _print_line(f"{folder.path}; no status page: {taken}")


def _close(plan: SoakPlan, last: BatchDirectory) -> None:
    """End a killed batch; the next one continues even if this one cannot be read."""
    try:
        Soak(plan, last, _print_line).close()
    except state.StateError as damaged:
        _print_line(f"{last.path} remains without an end: {damaged}")
    _summarise(last)


def _summarise(folder: BatchDirectory) -> None:
    """Write the summary in a separate process: it takes much more memory than the soak."""
    command = [sys.executable, "-m", "sojourn.harness.cli", "soak", "summary", str(folder.path)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    said = done.stdout.strip() if not done.returncode else f"no summary: {done.stderr.strip()}"
    _print_line(f"{said}; regenerate it with `sojourn soak summary {folder.path}`")


def _print_line(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S', time.gmtime())} {line}", flush=True)


def _failed(error: Exception, code: SoakExit) -> int:
    complain(str(error))
    return code
