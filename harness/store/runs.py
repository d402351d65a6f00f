# SPDX-License-Identifier: Apache-2.0
"""The run store: one directory per run, created by mkdir, finished by rename, never overwritten.

A run writes into `<date>-<time>Z-<test>-<cell>.partial`; `RunDirectory.commit` hashes every file into
`manifest.json` and removes the suffix. A run that fails or is killed keeps its directory, its suffix and what
it recorded; one that has recorded nothing leaves nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType

from sojourn.hardware.machine.files import (
    CHECKOUT,
    FRESH,
    flush,
    is_full,
    is_locked,
    lock,
    owner_only,
    remove_tree,
    sync_folder,
)
from sojourn.hardware.machine.signals import deferred_signals
from sojourn.harness.store.disk_usage import size_words
from sojourn.harness.store.manifest import (
    BALLAST,
    MANIFEST,
    PARTIAL,
    FileEntry,
    GitState,
    Manifest,
    Status,
    StoreError,
    folder_name,
    hash_files,
    read_manifest,
    require_outside_runs,
    run_folders,
    write_manifest,
)
from sojourn.harness.store.reasons import Reason, joined

#: Free space below which a running experiment stops, while its files can still be closed properly.
FLOOR_BYTES = 32 << 20
#: Reserved in the run directory, so that a manifest can be written even if the disk is full.
_BALLAST_BYTES = 256 << 10
#: Characters of test and cell in the name of a run: an archive's headers hold 155 of a folder's name.
_LONGEST = 100
#: Open files kept aside likewise, for a run that has too many: two folders to walk, the manifest and its folder.
_SPARE_FILES = 4
#: What a directory may hold before anything is recorded, beside the messages of programs (`*.log`).
_OF_SET_UP = (MANIFEST, BALLAST, "options.json")
_NEVER_ENDED = Reason.of("killed", "the run did not reach its end (killed?)")
_NOT_HASHED = "not all files were hashed: stopped by the user"
#: How long Ctrl-C may wait for a run's files to be hashed, s: most runs take less than one.
_PATIENCE_S = 5.0


class _Hurried(RuntimeError):
    """Hashing took too long after Ctrl-C."""


def _patience(came: Sequence[int]) -> Callable[[], None]:
    """Return a function that raises _Hurried once a signal in `came` has waited long enough."""
    since: list[float] = []

    def look() -> None:
        if came and not since:
            since.append(time.monotonic())
        if since and time.monotonic() - since[0] > _PATIENCE_S:
            raise _Hurried(_NOT_HASHED)

    return look


def stopped_by(signal: KeyboardInterrupt) -> str:
    """Return what ended a run: Ctrl-C, or the signal that was converted to it."""
    return f"stopped by {str(signal) or 'Ctrl-C'}"


def run_name(created: float, test: str, cell: str) -> str:
    """Return the name of a run that was created at a Unix time in s; letters, digits, `_`, `.` and `-` only."""
    name = f"{folder_name(test)}-{folder_name(cell)}"[:_LONGEST].rstrip("-.")
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(created))}Z-{name}"


class RunDirectory:
    """A run being recorded; an exception that leaves the context interrupts it, with the reason."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._done = self._hurried = self._recorded = False
        self._hashed: dict[str, FileEntry] = {}
        self._spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(_SPARE_FILES)]
        self._lock = _locked(path, wait=True)  # a check whether it is in use holds the lock for a moment

    def add_versions(self, versions: Mapping[str, str]) -> None:
        """Add versions (kernel, tc, Chromium, player, …) to the manifest."""
        self.manifest.versions.update(versions)

    def void(self, *reasons: Reason) -> None:
        """Mark the run void (invalid): it will be committed, with the reasons instead of a verdict."""
        self.manifest.reasons.extend(reasons)

    def recorded(self) -> None:
        """Note that the recording is complete: of a run that is stopped from now on, only the scores are missing."""
        self._recorded = True

    def require(self, *names: str) -> None:
        """Add files that such a run must have; gates judge files that were not recorded."""
        self.manifest.required.extend(names)

    def check_space(self, floor: int = FLOOR_BYTES) -> None:
        """Raise StoreError if fewer than `floor` bytes are free; call it while recording."""
        check_space(self.path, floor)

    def commit(self) -> Path:
        """Hash every file, write the manifest, remove `.partial` and return the final path.

        The status is `void` if `void` gave reasons, else `valid`. Raises StoreError if the disk is full, the final
        name was taken or a file cannot be part of a run, and what Ctrl-C raises where hashing takes longer than one
        waits; the directory then keeps its suffix and everything in it.
        """
        final = self.path.with_name(self.manifest.run)
        try:
            with deferred_signals() as came:
                self._hash(_patience(came))
                self._write("void" if self.manifest.reasons else "valid")
                self.path.rename(final)
                self.path, self._done = final, True
                sync_folder(final.parent)
        except _Hurried as hurried:
            raise StoreError(str(hurried)) from hurried
        except OSError as error:
            raise _explained(error, self.path) from error
        self._unlock()
        return final

    def interrupt(self, reason: Reason) -> None:
        """End the run early: `.partial` stays; the manifest says why and hashes what was recorded."""
        self._done = True
        self.manifest.reasons.append(reason)
        try:
            with deferred_signals() as came:
                try:
                    self._hash(_patience(came))
                except (_Hurried, StoreError) as why:
                    further = [] if str(why) in reason.text else [Reason.of("not-hashed", str(why))]
                    self.manifest.reasons += further
                self._write("interrupted")
        except OSError as error:
            raise _explained(error, self.path) from error
        self._unlock()

    def discard(self) -> None:
        """Remove the directory of a run that has recorded nothing."""
        self._done = True
        while self._spare:
            os.close(self._spare.pop())
        shutil.rmtree(self.path, ignore_errors=True)
        self._unlock()

    def fail(self, reason: Reason) -> None:
        """End the run early, as `interrupt` or, where it has recorded nothing, `discard`. Raises StoreError."""
        with deferred_signals():  # a further Ctrl-C waits for the manifest
            if _has_recorded(self.path):
                self.interrupt(reason)
            else:
                self.discard()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _hash(self, look: Callable[[], None]) -> None:
        """Hash what is not hashed yet. Raises StoreError, OSError, and _Hurried from when `look` first did."""
        while self._spare:
            os.close(self._spare.pop())
        for own in (BALLAST, MANIFEST):  # a machine may have replaced it by a folder
            if (self.path / own).is_dir():
                remove_tree(self.path / own)
        (self.path / BALLAST).unlink(missing_ok=True)
        owner_only(self.path)
        if self._hurried:
            raise _Hurried(_NOT_HASHED)
        try:
            hash_files(self.path, self._hashed, look)
        except _Hurried:
            self._hurried = True
            raise

    def _write(self, status: Status) -> None:
        self.manifest.files = dict(sorted(self._hashed.items()))
        self.manifest.required = sorted(self.manifest.files.keys() & {*self.manifest.required})
        self.manifest.finished = time.time()
        self.manifest.status = status
        flush(self.path)  # the listed files must be on disk before the manifest
        write_manifest(self.path, self.manifest)

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._done:
            return
        if value is None:
            self.fail(Reason.of("not-committed", "the run was left without a commit"))
        elif isinstance(value, KeyboardInterrupt):
            self.fail(Reason.of("not-scored" if self._recorded else "stopped", stopped_by(value)))
        else:
            text = f"{type(value).__name__}: {value}" if str(value) else type(value).__name__
            self.fail(
                Reason.of(
                    "disk-full" if is_full(value) or getattr(value, "code", "") == "disk-full" else "failed", text
                )
            )
        if isinstance(value, OSError) and is_full(value):
            raise _explained(value, self.path) from value


def check_space(folder: Path, floor: int = FLOOR_BYTES) -> None:
    """Raise StoreError when fewer than `floor` bytes are free in the directory of a run that is recorded."""
    if (free := shutil.disk_usage(folder).free) < floor:
        raise StoreError(
            f"disk full: {size_words(free)} left at {folder}, recording stops below {size_words(floor)}; "
            "recorded files are kept; free some space or give another --results",
            code="disk-full",
        )


class RunStore:
    """The results folder."""

    def __init__(self, results: Path) -> None:
        self.results = results

    def check(self, needed: int = FLOOR_BYTES, runs: int = 1) -> int:
        """Return the free bytes of the folder.

        Raises StoreError if it is inside a run, cannot be created and written, or has fewer than the `needed` bytes
        of `runs` runs.
        """
        require_outside_runs(self.results, "results")
        try:
            self.results.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.results).close()
            free = shutil.disk_usage(self.results).free
        except OSError as error:
            raise _explained(error, self.results) from error
        if free < needed:
            raise StoreError(
                f"--results {self.results}: {size_words(free)} free, "
                f"but {f'{runs} runs need' if runs > 1 else 'a run needs'} {size_words(needed)}; "
                "free some space or give another folder",
                code="disk-full",
            )
        return free

    def create(
        self,
        test: str,
        cell: str,
        *,
        seed: int | None = None,
        drawn: Mapping[str, str] = MappingProxyType({}),
        command_line: Sequence[str] = tuple(sys.argv),
        needed: int = FLOOR_BYTES,
    ) -> RunDirectory:
        """Make the directory of a new run, with a manifest that says that the run has not ended, and return
        it.

        `cell` names the combination of options, e.g. `fq_codel flows 1 10mbit 20ms`; anything but
        letters, digits, dots and underscores becomes a dash. `needed` is the space in bytes that must be
        free. Raises StoreError when the folder cannot be written or has not that space.
        """
        self.check(needed)
        try:
            self._sweep()
            now, git = time.time(), git_state()
            path = self._make(run_name(now, test, cell))
            manifest = Manifest(
                run=path.name.removesuffix(PARTIAL),
                test=test,
                cell=cell,
                created=now,
                reasons=[_NEVER_ENDED],
                command_line=list(command_line),
                seed=seed,
                drawn=dict(drawn),
                git=git,
            )
            write_manifest(path, manifest)
            run = RunDirectory(path, manifest)
            (path / BALLAST).write_bytes(os.urandom(_BALLAST_BYTES))
        except OSError as error:
            raise _explained(error, self.results) from error
        manifest.reasons = []
        return run

    def _sweep(self) -> None:
        """Remove leftovers of runs that were killed before they recorded anything; a living run holds its lock."""
        for run in (ballast.parent for ballast in self.results.glob(f"*{PARTIAL}/{BALLAST}")):
            if (held := _locked(run)) is not None:
                if not _has_recorded(run):
                    shutil.rmtree(run, ignore_errors=True)
                os.close(held)

    def _make(self, stem: str) -> Path:
        # mkdir is the lock: of two runs in the same second, one gets the next number.
        for number in range(1, 1000):
            name = stem if number == 1 else f"{stem}-{number}"
            if (self.results / name).exists():
                continue
            path = self.results / (name + PARTIAL)
            try:
                path.mkdir(mode=0o700)  # pages may show private content
            except FileExistsError:
                continue
            return path
        raise StoreError(
            f"--results {self.results}: a thousand runs have the name {stem}; clear the folder", code="exists"
        )

    def runs(self) -> list[Path]:
        """Return the directories of all committed runs, oldest first; those of a matrix's cells by cell and seed."""
        return [run for run in run_folders(self.results) if run.suffix != PARTIAL]


def is_unscored(path: Path) -> bool:
    """Return whether a run was stopped when its recording was complete. Raises StoreError for what is no run."""
    return path.name.endswith(PARTIAL) and [it.code for it in read_manifest(path).reasons] == ["not-scored"]


def unfinished_state(path: Path) -> tuple[str, str]:
    """Return the state of a run in a `.partial` directory (running, not scored or interrupted) and the reason.

    Raises StoreError for what is no run.
    """
    if is_locked(path):
        return "running", ""
    return "not scored" if is_unscored(path) else "interrupted", joined(read_manifest(path).reasons)


def _locked(run: Path, *, wait: bool = False) -> int | None:
    """Lock a run's directory and return its descriptor; None if it is locked and without `wait`, or without locks."""
    with suppress(OSError):
        descriptor = os.open(run, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):
            if lock(descriptor, wait=wait):
                return descriptor
        os.close(descriptor)
    return None


def _has_recorded(run: Path) -> bool:
    """Return whether a directory holds more than options and programs' messages, or cannot be read."""
    try:
        files = [path for path in run.rglob("*") if path.is_file()]
        return any(
            file.suffix not in (".log", FRESH) and file.name not in _OF_SET_UP and file.stat().st_size for file in files
        )
    except OSError:
        return True


def git_state(checkout: Path = CHECKOUT) -> GitState | None:
    """Return commit and dirtiness of the checkout, or None where there is no git or no repository."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(checkout), *words], capture_output=True, text=True, check=True, timeout=30
        ).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != checkout.resolve():
            return None  # installed within somebody else's repository
        return GitState(commit=git("rev-parse", "HEAD"), dirty=bool(git("status", "--porcelain")))
    except (OSError, subprocess.SubprocessError):
        return None


def _explained(error: OSError, where: Path) -> StoreError:
    if is_full(error):
        text = f"disk full at {where}; recorded files are kept; free some space or give another --results"
        return StoreError(text, code="disk-full")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return StoreError(f"{where}: {error.strerror}; what was recorded is kept; raise the limit (`ulimit -n 4096`)")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT):
        return StoreError(
            f"--results {where}: cannot be written ({error.strerror}); give a folder that you own", code="not-writable"
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return StoreError(
            f"--results {where}: is not a folder, or is inside a file; give a folder", code="not-a-folder"
        )
    return StoreError(f"{where}: {error.strerror or error}")
