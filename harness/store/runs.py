# SPDX-License-Identifier: Apache-2.0
"""The run store: one directory a run, made by mkdir, finished by rename, never overwritten.

A run writes into ``<date>-<time>Z-<test>-<cell>.partial``; :meth:`RunDirectory.commit` hashes every file into
``manifest.json`` and drops the suffix. A run that fails or is killed keeps its directory, its suffix and what
it recorded.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from hardware.machine.files import CHECKOUT, is_full, replace_file

SCHEMA_VERSION: Literal[1] = 1
MANIFEST = "manifest.json"
#: Whoever signed a bundle signed its manifest; this lies beside it (harness/bundle/signature.py).
SIGNATURE = "manifest.json.sig"
PARTIAL = ".partial"
Status = Literal["valid", "void", "interrupted"]

#: Below this a running experiment stops, while its files can still be closed properly.
FLOOR_BYTES = 32 << 20
#: Kept aside in the run directory, so that a manifest can be written when the disk is full.
_BALLAST_BYTES = 256 << 10
_BALLAST = ".ballast"
#: Characters of test and cell in the name of a run: an archive's headers hold 155 of a folder's name.
_LONGEST = 100
_NEVER_ENDED = "the run did not reach its end (killed?)"


class StoreError(RuntimeError):
    """The results folder or a run directory cannot be used; the message names it and what would help."""


class FileEntry(BaseModel):
    """What the manifest says of one file: its SHA-256 in hex and its size in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


class GitState(BaseModel):
    """The commit that ran, and whether the checkout differed from it."""

    model_config = ConfigDict(frozen=True)
    commit: str
    dirty: bool


class Bundled(BaseModel):
    """What the manifest in a bundle says of its making: of which manifest (SHA-256 in hex), and what is not in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str = Field(pattern=r"^[0-9a-f]{64}$")
    anonymised: bool = False
    without_video: bool = False
    left_out: list[str] = []


def _plain_name(run: str) -> str:
    # It becomes the name of a folder, also when the manifest comes from somebody else.
    if not re.fullmatch(r"\w[\w.-]{0,200}", run, re.ASCII) or run.endswith(PARTIAL):
        raise ValueError(f"{run!r}: is no name of a run")
    return run


_LONGEST_PATH = 1000
#: One part of a path: no control characters, nothing that another system takes for a separator or a drive.
_PART = re.compile(r"[^\x00-\x1f\x7f\\:]{1,200}")


def _inside(files: dict[str, FileEntry]) -> dict[str, FileEntry]:
    """Refuse paths that lead out of the run, and two that are one where case does not count."""
    taken = {MANIFEST, SIGNATURE}
    folders: set[str] = set()
    for path in files:
        parts = path.split("/")
        bad = any(part in ("", ".", "..") or not _PART.fullmatch(part) for part in parts)
        if bad or len(path) > _LONGEST_PATH:
            raise ValueError(f"{path[:100]!r}: leads outside of the run, or is no plain path")
        folded = unicodedata.normalize("NFC", path).casefold()
        above = {folded[: at.start()] for at in re.finditer("/", folded)}
        if folded in taken or folded in folders or above & taken:
            raise ValueError(f"{path!r}: is the same as another path where case does not count")
        taken.add(folded)
        folders |= above
    return files


#: Unix s, up to the end of the year 9999, after which no date can be written.
UnixTime = Annotated[float, Field(ge=0, lt=253_402_300_800)]


class Manifest(BaseModel):
    """``manifest.json``. Times are Unix seconds; ``files`` maps paths inside the run to their hashes."""

    model_config = ConfigDict(extra="forbid")
    schema_version: Literal[1] = SCHEMA_VERSION
    run: Annotated[str, AfterValidator(_plain_name)]
    test: str
    cell: str
    created: UnixTime
    finished: UnixTime | None = None
    status: Status = "interrupted"
    reasons: list[str] = []
    command_line: list[str] = []
    seed: int | None = None
    git: GitState | None = None
    versions: dict[str, str] = {}
    files: Annotated[dict[str, FileEntry], AfterValidator(_inside)] = {}
    bundle: Bundled | None = None
    pruned: Annotated[dict[str, FileEntry], AfterValidator(_inside)] = {}
    """Files that were removed later to make room, as they were (see :func:`prune`)."""


class RunDirectory:
    """A run being recorded; leaving it as a context by an exception interrupts it, with the reason."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._done = False

    def add_versions(self, versions: Mapping[str, str]) -> None:
        """Add versions (kernel, tc, Chromium, player, …) to what the manifest will hold."""
        self.manifest.versions.update(versions)

    def void(self, *reasons: str) -> None:
        """Mark the run void: it will be committed, with the reasons instead of a verdict."""
        self.manifest.reasons.extend(reasons)

    def check_space(self, floor: int = FLOOR_BYTES) -> None:
        """Raise StoreError when fewer than ``floor`` bytes are free; to be called while recording."""
        free = shutil.disk_usage(self.path).free
        if free < floor:
            raise StoreError(
                f"disk full: {_mb(free)} left at {self.path}, recording stops below {_mb(floor)}; "
                "what was recorded is kept; free some space or give another --results"
            )

    def commit(self) -> Path:
        """Hash every file, write the manifest, drop ``.partial`` and return the final path.

        The status is ``void`` if :meth:`void` gave reasons, else ``valid``. Raises StoreError if the disk is
        full or the final name was taken; the directory then keeps its suffix and everything in it.
        """
        final = self.path.with_name(self.manifest.run)
        try:
            self._write("void" if self.manifest.reasons else "valid")
            self.path.rename(final)
        except OSError as error:
            raise _explained(error, self.path) from error
        self.path, self._done = final, True
        return final

    def interrupt(self, reason: str) -> None:
        """End the run early: ``.partial`` stays; the manifest says why and hashes what was recorded."""
        self._done = True
        self.manifest.reasons.append(reason)
        try:
            self._write("interrupted")
        except OSError as error:
            raise _explained(error, self.path) from error

    def _write(self, status: Status) -> None:
        (self.path / _BALLAST).unlink(missing_ok=True)
        self.manifest.files = hash_files(self.path)
        self.manifest.finished = time.time()
        self.manifest.status = status
        write_manifest(self.path, self.manifest)

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._done:
            return
        if value is None:
            self.interrupt("the run was left without a commit")
            return
        self.interrupt(f"{type(value).__name__}: {value}" if str(value) else type(value).__name__)
        if isinstance(value, OSError) and is_full(value):
            raise _explained(value, self.path) from value


class RunStore:
    """The results folder."""

    def __init__(self, results: Path) -> None:
        self.results = results

    def check(self, needed: int = FLOOR_BYTES) -> None:
        """Raise StoreError when the folder cannot be made and written, or has not ``needed`` bytes free."""
        try:
            self.results.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.results).close()
            free = shutil.disk_usage(self.results).free
        except OSError as error:
            raise _explained(error, self.results) from error
        if free < needed:
            raise StoreError(
                f"--results {self.results}: {_mb(free)} free, a run needs {_mb(needed)}; "
                "free some space or give another folder"
            )

    def create(
        self,
        test: str,
        cell: str,
        *,
        seed: int | None = None,
        command_line: Sequence[str] = tuple(sys.argv),
        needed: int = FLOOR_BYTES,
    ) -> RunDirectory:
        """Make the directory of a new run, with a manifest that says that the run has not ended, and return
        it.

        ``cell`` names the combination of options, e.g. ``fq_codel flows 1 10mbit 20ms``; anything but
        letters, digits, dots and underscores becomes a dash. ``needed`` is the space in bytes that must be
        free. Raises StoreError when the folder cannot be written or has not that space.
        """
        self.check(needed)
        try:
            now = time.time()
            name = f"{_slug(test)}-{_slug(cell)}"[:_LONGEST].rstrip("-.")
            stem = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}Z-{name}"
            path = self._make(stem)
            manifest = Manifest(
                run=path.name.removesuffix(PARTIAL),
                test=test,
                cell=cell,
                created=now,
                reasons=[_NEVER_ENDED],
                command_line=list(command_line),
                seed=seed,
                git=git_state(),
            )
            write_manifest(path, manifest)
            (path / _BALLAST).write_bytes(os.urandom(_BALLAST_BYTES))
        except OSError as error:
            raise _explained(error, self.results) from error
        manifest.reasons = []
        return RunDirectory(path, manifest)

    def _make(self, stem: str) -> Path:
        # mkdir is the lock: of two runs in one second one gets the next number.
        for number in range(1, 1000):
            name = stem if number == 1 else f"{stem}-{number}"
            if (self.results / name).exists():
                continue
            path = self.results / (name + PARTIAL)
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
        raise StoreError(f"--results {self.results}: a thousand runs are named {stem}; clear the folder")

    def runs(self) -> list[Path]:
        """Return the directories of all committed runs, oldest first."""
        return sorted(p.parent for p in self.results.glob(f"*/{MANIFEST}") if p.parent.suffix != PARTIAL)


def read_manifest(run: Path) -> Manifest:
    """Return the manifest of a run directory. Raises StoreError when it has none or a bad one."""
    try:
        return parse_manifest((run / MANIFEST).read_bytes(), str(run))
    except OSError as error:
        raise StoreError(f"{run}: no run directory: {MANIFEST}: {error.strerror}") from error


def parse_manifest(text: bytes, name: str) -> Manifest:
    """Return the manifest in ``text``. Raises StoreError with ``name`` and the first field that is wrong."""
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise StoreError(f"{name}: {MANIFEST}: {where}: {first['msg'].removeprefix('Value error, ')}") from error


def manifest_text(manifest: Manifest) -> bytes:
    """Return the bytes of ``manifest.json``."""
    return manifest.model_dump_json(indent=1).encode() + b"\n"


def write_manifest(run: Path, manifest: Manifest) -> None:
    """Write ``manifest.json`` in one step, so that a reader sees the old or the new one. Raises OSError."""
    replace_file(run / MANIFEST, manifest_text(manifest))


def hash_files(run: Path) -> dict[str, FileEntry]:
    """Return path and hash of every file but the manifest, sorted. Raises StoreError on a link."""
    entries = {}
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        if path.is_symlink():
            raise StoreError(f"{path}: a link; a run holds plain files only")
        if path.is_file() and name not in (MANIFEST, MANIFEST + ".new", SIGNATURE, _BALLAST):
            entries[name] = hash_file(path)
    return entries


def hash_file(path: Path) -> FileEntry:
    """Return SHA-256 and size of one file."""
    with path.open("rb") as file:
        return FileEntry(sha256=hashlib.file_digest(file, "sha256").hexdigest(), size=file.tell())


def reseal(run: Path, *names: str, reasons: Sequence[str] | None = None) -> None:
    """Hash the derived files ``names`` (report, scores) again; all others stay as recorded.

    ``reasons``, when given, replace those of the manifest, and with them its status: void with reasons, else
    valid; an interrupted run stays interrupted.
    """
    manifest = read_manifest(run)
    if reasons is not None:
        manifest.reasons = list(reasons)
        if manifest.status != "interrupted":
            manifest.status = "void" if reasons else "valid"
    manifest.files.update({name: hash_file(run / name) for name in names})
    manifest.files = dict(sorted(manifest.files.items()))
    write_manifest(run, manifest)


def prune(run: Path, name: str) -> None:
    """Remove the file ``name`` of a finished run; the manifest keeps its hash. Raises StoreError, OSError."""
    manifest = read_manifest(run)
    if name in manifest.files:
        manifest.pruned[name] = manifest.files.pop(name)
        write_manifest(run, manifest)
    elif name not in manifest.pruned:  # that were removed from there, but for a kill
        raise StoreError(f"{run}: {name}: the manifest does not hold it")
    (run / name).unlink(missing_ok=True)


def git_state(checkout: Path = CHECKOUT) -> GitState | None:
    """Return commit and dirtiness of the checkout, or None where there is no git or no repository."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(checkout), *words], capture_output=True, text=True, check=True, timeout=30
        ).stdout.strip()

    try:
        return GitState(commit=git("rev-parse", "HEAD"), dirty=bool(git("status", "--porcelain")))
    except (OSError, subprocess.SubprocessError):
        return None


def _slug(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text, flags=re.ASCII).strip("-.") or "run"


def _mb(count: int) -> str:
    return f"{count / 1e6:.0f} MB"


def _explained(error: OSError, where: Path) -> StoreError:
    if is_full(error):
        return StoreError(f"disk full at {where}; what was recorded is kept; free some space or give another --results")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreError(f"--results {where}: cannot be written ({error.strerror}); give a folder that you own")
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return StoreError(f"--results {where}: is no folder, or lies inside a file; give a folder")
    return StoreError(f"{where}: {error.strerror or error}")
