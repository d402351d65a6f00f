# SPDX-License-Identifier: Apache-2.0
"""A control group with little memory, for processes that a test starts."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_GROUPS = Path("/sys/fs/cgroup")


@contextmanager
def little_memory(most_bytes: int) -> Iterator[tuple[str, ...]]:
    """Make a group that may have `most_bytes`; yields the words before a command that is to run in it."""
    old = (_GROUPS / "memory").is_dir()
    group = _GROUPS / ("memory" if old else "") / f"sojourn-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(most_bytes))
    except OSError as refused:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group may be made here: {refused}")
    try:
        yield "sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"
    finally:
        end = time.monotonic() + 10
        while group.exists():
            for pid in map(int, (group / "cgroup.procs").read_text().split()):
                with suppress(OSError):
                    os.kill(pid, 9)
            with suppress(OSError):
                group.rmdir()
            assert time.monotonic() < end, "the group is still in use"
            time.sleep(0.05)
