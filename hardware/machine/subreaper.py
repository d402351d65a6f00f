# SPDX-License-Identifier: Apache-2.0
"""Run a tool that ends with its caller, however that ends, together with all its descendants in any session.

    python subreaper.py PARENT COMMAND…

Runs COMMAND as the child of a subreaper (prctl(2)), which adopts processes that outlive their parent. Once COMMAND has
ended, or at SIGTERM, or when the process PARENT has ended, the subreaper kills all remaining descendants and exits with
COMMAND's exit code (128 plus the signal number). Only SIGKILL ends it earlier. Needs nothing but Python.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
_HEARD = signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP


def with_descendants(command: Sequence[str]) -> list[str]:
    """Return the argv that runs `command` so that it and its descendants end with the thread that starts it.

    Start it in its own session, so that a signal to the caller's group does not end the subreaper alone. Stop it by
    SIGTERM.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def adopt_orphans(adopt: bool = True) -> None:
    """Make orphaned descendants children of this process instead of the machine's init; or undo that."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


def main(parent: str, *command: str) -> int:
    """See the module's docstring."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    adopt_orphans()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != int(parent):
        return 128 + signal.SIGTERM
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2:  # locks, to be held until the last process has ended
            with suppress(OSError):
                os.set_inheritable(descriptor, False)
    # Python ignores SIGPIPE, and ignored signals are inherited.
    tool = os.posix_spawnp(
        command[0], command, os.environ, setsigmask=before, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ]
    )
    code = None
    while code is None:
        if signal.sigwait(_HEARD) == signal.SIGTERM:
            code = 128 + signal.SIGTERM
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == tool:
                    status = os.waitstatus_to_exitcode(ended[1])
                    code = status if status >= 0 else 128 - status
    _end_children()
    return code


def _end_children() -> None:
    """Kill and reap until no descendant is left: the children of an ended process are adopted."""
    with suppress(ChildProcessError):
        while True:
            for pid in filter(str.isdecimal, os.listdir("/proc")):
                with suppress(OSError):
                    if _parent(pid) == os.getpid():
                        os.kill(int(pid), signal.SIGKILL)
            os.waitpid(-1, 0)


def _parent(pid: str) -> int:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
