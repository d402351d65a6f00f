# SPDX-License-Identifier: Apache-2.0
"""Claims on result folders for concurrent processes: mkdir is the lock, rename the commit.

A folder in progress ends in `.partial` and is locked with flock(2), which the kernel releases when its holder
dies: exactly one other process takes over a killed process's leftovers at once.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from sojourn.hardware.machine.files import flush, lock, sync_folder
from sojourn.harness.store.manifest import PARTIAL

FAILED = ".failed"


class Claim:
    """The right to create `final`; write to `folder`, then call commit, fail or release."""

    def __init__(self, final: Path, folder: Path, lock: int) -> None:
        self.final, self.folder, self._lock = final, folder, lock
        self._failed = final.with_name(final.name + FAILED)

    def commit(self) -> Path:
        """Rename the folder to its final name, replacing an old or failed one, and return it."""
        aside = self.final.with_name(self.final.name + ".old")
        shutil.rmtree(aside, ignore_errors=True)
        flush(self.folder)
        if self.final.exists():
            self.final.rename(aside)
        self.folder.rename(self.final)
        sync_folder(self.final.parent)
        shutil.rmtree(aside, ignore_errors=True)
        shutil.rmtree(self._failed, ignore_errors=True)
        os.close(self._lock)
        return self.final

    def fail(self, error: str) -> Path:
        """Keep the folder under a name for failures, with the error in `error.txt`, and return it."""
        shutil.rmtree(self._failed, ignore_errors=True)
        (self.folder / "error.txt").write_text(error + "\n")
        self.folder.rename(self._failed)
        os.close(self._lock)
        return self._failed

    def release(self) -> None:
        """Release the claim and remove what was written."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def claim(final: Path, *, wait: bool = False) -> Claim | None:
    """Return the right to create `final`; None if another living process has it.

    The folder may hold what a killed process wrote. With `wait`, block until the other process is done; `final`
    may exist by then. Raises OSError.
    """
    folder = final.with_name(final.name + PARTIAL)
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            if not lock(held, wait=wait):
                os.close(held)
                return None
            # Between open and lock, its holder may have renamed or removed it.
            if os.path.samestat(os.fstat(held), folder.stat()):
                return Claim(final, folder, held)
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(held)
            raise
        os.close(held)
