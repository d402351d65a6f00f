# SPDX-License-Identifier: Apache-2.0
"""Leftovers of a run: processes, the namespaces that they hold, mounts. Sojourn's own are removed.

A run is started with `MARK` in its environment, which all its descendants inherit, in any namespace.
Chromium hides its environment: it is identified as a descendant of a marked process, or of this one.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import textwrap
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

from sojourn.hardware.machine.messages import printable

MARK = "SOJOURN_SOAK"
#: What dies with its run has this long to do so, s.
_GRACE_S = 5.0
_LOOK_S = 0.05
#: Characters of a command line to report.
_COMMAND_CHARS = 120
_KINDS = ("net", "mnt", "pid", "user")


def marked(mark: str) -> list[psutil.Process]:
    """Return the processes that were started under `mark`, or under `mark/…`."""
    wanted = f"{MARK}={mark}/".encode()
    processes: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            words = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            if any((word + b"/").startswith(wanted) for word in words):
                processes |= {process, *process.children(recursive=True)}
    return list(processes)


def mounts() -> set[str]:
    """Return every mount point that this process sees."""
    points = (line.split(b" ")[1] for line in Path("/proc/self/mounts").read_bytes().split(b"\n") if line)
    return {
        os.fsdecode(re.sub(rb"\\([0-3][0-7]{2})", lambda octal: bytes([int(octal[1], 8)]), point)) for point in points
    }


def clean(mark: str, before: set[str], ours: Path) -> list[str]:
    """Kill what a run left behind, including all children of this process, and return one line per leftover.

    `before` are the mount points from before it. Newer ones below the folder `ours` are undone; others stay.
    """
    return [*_end_processes(mark), *_undo_mounts(before, ours)]


def end_marked(mark: str) -> list[str]:
    """Kill what was started under `mark`, but no other children; return one line per leftover."""
    return _end(_outlasting(marked(mark), reap=False))


def _end_processes(mark: str) -> list[str]:
    return _end(_outlasting([*{*marked(mark), *psutil.Process().children(recursive=True)}]))


def _end(left: list[psutil.Process]) -> list[str]:
    if not left:
        return []
    commands = Counter(_command(process) for process in left)
    spaces = {space for process in left for space in _namespaces(process)} - set(_namespaces(psutil.Process()))
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    stuck = _outlasting(left, reap=False)
    listed = ", ".join(
        f"{count} times {command}" if count > 1 else command for command, count in sorted(commands.items())
    )
    done = f"{len(stuck)} of them cannot be killed" if stuck else "killed"
    held = f", in {len(spaces)} namespaces of their own" if spaces else ""
    return [f"{len(left)} {'process' if len(left) == 1 else 'processes'} left running ({listed}){held}; {done}"]


def _outlasting(processes: list[psutil.Process], *, reap: bool = True) -> list[psutil.Process]:
    """Return those that still run after the grace period. A zombie counts as ended: its parent may never reap it.

    Those that we adopted we let go of at once: the first process of a pid namespace stays until the last zombie in it
    is gone. Not without `reap`: among our children may be one whose exit code another thread waits for.
    """
    end = time.monotonic() + _GRACE_S
    while True:
        if reap:
            _reap()
        left = [process for process in processes if _runs(process)]
        if not left or time.monotonic() > end:
            return left
        time.sleep(_LOOK_S)


def _reap() -> None:
    for child in psutil.Process().children():
        with suppress(psutil.Error, ChildProcessError):
            if child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, os.WNOHANG)


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _command(process: psutil.Process) -> str:
    """Return the command line, cut short; the bare name of one that has let go of its memory."""
    with suppress(psutil.Error):
        line = (
            textwrap.shorten(shlex.join(process.cmdline()), _COMMAND_CHARS, placeholder=" …") or f"[{process.name()}]"
        )
        return printable(line)
    return "?"


def _namespaces(process: psutil.Process) -> list[str]:
    spaces = []
    for kind in _KINDS:
        with suppress(OSError):
            spaces.append(os.readlink(f"/proc/{process.pid}/ns/{kind}"))
    return spaces


def _undo_mounts(before: set[str], ours: Path) -> list[str]:
    lines = []
    for point in sorted(mounts() - before, reverse=True):  # what is mounted inside another comes first
        if Path(point).is_relative_to(ours):
            done = subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)
            said = done.stderr.decode(errors="replace").strip() if done.returncode else "unmounted now"
            lines.append(f"left mounted: {printable(point)}; {said}")
    return lines
