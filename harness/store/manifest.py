# SPDX-License-Identifier: Apache-2.0
"""`manifest.json`: what a run is, how it ended, and the hash of each of its files."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from sojourn.hardware.machine.files import FRESH, flush, lock, plain, replace_file
from sojourn.hardware.machine.messages import first_wrong, printable

SCHEMA_VERSION: Literal[1] = 1
MANIFEST = "manifest.json"
#: Bytes of one; those of runs have some tens of thousands.
LARGEST = 2 << 20
MOST_FILES = 10_000
#: Whoever signed a bundle signed its manifest; this lies beside it (harness/store/signature.py).
SIGNATURE = "manifest.json.sig"
Status = Literal["valid", "void", "interrupted"]
PARTIAL = ".partial"
BALLAST = ".ballast"


class StoreError(RuntimeError):
    """The results folder or a run directory cannot be used; the message names it and what would help."""


class FileEntry(BaseModel):
    """What the manifest says of one file: its SHA-256 in hex and its size in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


#: Text that may come from somebody else, and is printed and shown in pages.
Text = Annotated[str, Field(max_length=100_000), AfterValidator(printable)]


class GitState(BaseModel):
    """The commit that ran, and whether the checkout differed from it."""

    model_config = ConfigDict(frozen=True)
    commit: Text
    dirty: bool


class Bundled(BaseModel):
    """What the manifest in a bundle says of its making: of which manifest (SHA-256 in hex), and what is not in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str = Field(pattern=r"^[0-9a-f]{64}$")
    anonymised: bool = False
    without_video: bool = False
    left_out: list[Text] = []


def _plain_name(run: str) -> str:
    # It becomes the name of a folder, also when the manifest comes from somebody else.
    if not re.fullmatch(r"\w[\w.-]{0,200}", run, re.ASCII) or run.endswith(PARTIAL):
        raise ValueError(f"{run!r}: is no name of a run")
    return run


_LONGEST_PATH, _DEEPEST = 1000, 16
_CHUNK = 1 << 20
#: One part of a path: no control characters, nothing that another system takes for a separator or a drive.
_PART = re.compile(r"[^\x00-\x1f\x7f\\:]{1,200}")


class _Paths:
    """Paths that a manifest may hold."""

    def __init__(self) -> None:
        self._taken, self._folders = {MANIFEST, SIGNATURE}, set[str]()

    def add(self, path: str) -> None:
        """Raise ValueError for what leads out of the run, or is one with another path where case does not count."""
        parts = path.split("/")
        bad = any(part in ("", ".", "..") or not _PART.fullmatch(part) or not part.isprintable() for part in parts)
        if bad or len(path) > _LONGEST_PATH or len(parts) > _DEEPEST:
            raise ValueError(f"{path[:100]!r}: leads outside of the run, or is no plain path")
        if parts[-1].endswith(FRESH) or path == BALLAST:
            raise ValueError(f"{path!r}: is the name of a file that is being written")
        folded = unicodedata.normalize("NFC", path).casefold()
        above = {folded[: at.start()] for at in re.finditer("/", folded)}
        if folded in self._taken or folded in self._folders or above & self._taken:
            raise ValueError(f"{path!r}: is the same as another path where case does not count")
        self._taken.add(folded)
        self._folders |= above


def _inside(files: dict[str, FileEntry]) -> dict[str, FileEntry]:
    paths = _Paths()
    for path in files:
        paths.add(path)
    return files


#: Unix s, up to the end of the year 9999, after which no date can be written.
UnixTime = Annotated[float, Field(ge=0, lt=253_402_300_800)]


class Manifest(BaseModel):
    """`manifest.json`. Times are Unix seconds; `files` maps paths inside the run to their hashes."""

    model_config = ConfigDict(extra="forbid")
    schema_version: Literal[1] = SCHEMA_VERSION
    run: Annotated[str, AfterValidator(_plain_name)]
    test: Text
    cell: Text
    created: UnixTime
    finished: UnixTime | None = None
    status: Status = "interrupted"
    reasons: Annotated[list[Text], Field(max_length=1000)] = []
    command_line: Annotated[list[Text], Field(max_length=1000)] = []
    seed: int | None = None
    git: GitState | None = None
    versions: Annotated[dict[Text, Text], Field(max_length=5000)] = {}
    files: Annotated[dict[str, FileEntry], Field(max_length=MOST_FILES), AfterValidator(_inside)] = {}
    required: Annotated[list[Text], Field(max_length=MOST_FILES)] = []
    """Files that a run of this kind must have, noted when it was recorded."""
    bundle: Bundled | None = None
    pruned: Annotated[dict[str, FileEntry], Field(max_length=MOST_FILES), AfterValidator(_inside)] = {}
    """Files that were removed later to make room, as they were (see `prune`)."""


def check_complete(manifest: Manifest, where: object, *further: str) -> None:
    """Raise StoreError where a required file, or one of `further`, was taken out of folder and manifest."""
    left_out = manifest.bundle.left_out if manifest.bundle else []
    known = {*manifest.files, *manifest.pruned, *left_out}
    if gone := [name for name in dict.fromkeys((*manifest.required, *further)) if name not in known]:
        more = f" and {len(gone) - 1} more are" if len(gone) > 1 else " is"
        there = len(manifest.files)
        raise StoreError(f"{where}: {there} of {there + len(gone)} files: {gone[0]}{more} missing")


def read_manifest(run: Path) -> Manifest:
    """Return the manifest of a run directory. Raises StoreError when it has none or a bad one."""
    try:
        with open(run / MANIFEST, "rb", opener=plain) as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise StoreError(f"{run}: no run directory: {MANIFEST}: {error.strerror}") from error
    if len(text) > LARGEST:
        raise StoreError(f"{run}: {MANIFEST}: is larger than the {LARGEST} bytes that one may have")
    return parse_manifest(text, str(run))


def parse_manifest(text: bytes, name: str) -> Manifest:
    """Return the manifest in `text`. Raises StoreError with `name` and the first field that is wrong."""
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        raise StoreError(f"{name}: {MANIFEST}: {first_wrong(error, 'it')}") from error


def manifest_text(manifest: Manifest) -> bytes:
    """Return the bytes of `manifest.json`."""
    return manifest.model_dump_json(indent=1).encode() + b"\n"


def write_manifest(run: Path, manifest: Manifest) -> None:
    """Write `manifest.json` in one step, so that a reader sees the old or the new one. Raises OSError."""
    replace_file(run / MANIFEST, manifest_text(manifest))


def hash_files(
    run: Path, known: dict[str, FileEntry] | None = None, look: Callable[[], None] = lambda: None
) -> dict[str, FileEntry]:
    """Return path and hash of every file but the manifest, sorted.

    Those in `known` are not hashed again, and each new one is entered there. `look` is called often; what it raises
    ends this. Raises StoreError on a link, and on what no manifest can hold.
    """
    entries, paths = {} if known is None else known, _Paths()
    refused: StoreError | None = None  # what else was recorded is hashed all the same
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        if path.is_symlink():
            refused = refused or StoreError(f"{printable(str(path))}: a link; a run holds plain files only")
            continue
        if not path.is_file() or name in (MANIFEST, SIGNATURE, BALLAST) or name.endswith(FRESH):
            continue
        try:
            paths.add(name)
        except ValueError as wrong:
            refused = refused or StoreError(f"{run}: {wrong}")
            continue
        if name not in entries:
            if len(entries) == MOST_FILES:
                raise StoreError(f"{run}: more than {MOST_FILES} files; a run has {MOST_FILES} at most")
            entries[name] = hash_file(path, look)
    if refused:
        raise refused
    return entries


def hash_file(path: Path, look: Callable[[], None] = lambda: None) -> FileEntry:
    """Return SHA-256 and size of one file; `look` is called for each MiB."""
    total, size = hashlib.sha256(), 0
    with open(path, "rb", buffering=0, opener=plain) as file:
        while chunk := file.read(_CHUNK):
            total.update(chunk)
            size += len(chunk)
            look()
    return FileEntry(sha256=total.hexdigest(), size=size)


@contextmanager
def _alone(run: Path) -> Iterator[None]:
    """Be the only one that changes a finished run's manifest; else one of two changes may be lost. Raises OSError."""
    held = os.open(run, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # no locks there
            lock(held, wait=True)
        yield
    finally:
        os.close(held)


def reseal(run: Path, *names: str, reasons: Sequence[str] | None = None) -> None:
    """Hash the derived files `names` (report, scores) again; all others stay as recorded.

    `reasons`, when given, replace those of the manifest, and with them its status: void with reasons, else
    valid; an interrupted run stays interrupted.
    """
    with _alone(run):
        manifest = read_manifest(run)
        if reasons is not None:
            manifest.reasons = list(reasons)
            if manifest.status != "interrupted":
                manifest.status = "void" if reasons else "valid"
        manifest.files.update({name: hash_file(run / name) for name in names})
        manifest.files = dict(sorted(manifest.files.items()))
        flush(run)
        write_manifest(run, manifest)


def prune(run: Path, name: str) -> None:
    """Remove the file `name` of a finished run; the manifest keeps its hash. Raises StoreError, OSError."""
    with _alone(run):
        manifest = read_manifest(run)
        if name in manifest.files:
            manifest.pruned[name] = manifest.files.pop(name)
            write_manifest(run, manifest)
        elif name not in manifest.pruned:  # that were removed from there, but for a kill
            raise StoreError(f"{run}: {name}: the manifest does not hold it")
        (run / name).unlink(missing_ok=True)
