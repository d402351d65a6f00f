# SPDX-License-Identifier: Apache-2.0
"""`manifest.json`: what a run is, how it ended, and the hash of every file."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.files import FRESH, flush, lock, opened, plain, replace_file
from sojourn.hardware.machine.messages import count_of, first_wrong, printable
from sojourn.harness.store.reasons import Reason, Text

SCHEMA_VERSION: Literal[1] = 1
MANIFEST, REPORT = "manifest.json", "report.html"
CRATE = "ro-crate-metadata.json"
"""A bundle's description of its files for other tools."""
#: Bytes of one; those of runs have some tens of thousands.
LARGEST = 2 << 20
MOST_FILES = 10_000
#: A bundle's signature signs its manifest and is stored next to it (harness/store/signature.py).
SIGNATURE = "manifest.json.sig"
Status = Literal["valid", "void", "interrupted"]
PARTIAL = ".partial"
BALLAST = ".ballast"
SET_ASIDE = (".failed", ".old")
"""Ends of names of directories that are no runs: what a failed one left, and one that is replaced or being deleted."""


class StoreError(CodedError):
    """The results folder or a run directory cannot be used; the message names it and the remedy."""


class FileEntry(BaseModel):
    """A file's entry in the manifest: SHA-256 in hex and size in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


class GitState(BaseModel):
    """The commit that ran, and whether the checkout differed from it."""

    model_config = ConfigDict(frozen=True)
    commit: Text
    dirty: bool


class Bundled(BaseModel):
    """The origin of a bundle's manifest: the original manifest (SHA-256 in hex), and the excluded files."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str = Field(pattern=r"^[0-9a-f]{64}$")
    anonymised: bool = False
    without_video: bool = False
    left_out: list[Text] = []


class Cached(BaseModel):
    """What decides whether a finished run of a cell stands for a requested one; digests in hex."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    inputs: Text
    """Of everything that decides the raw files besides cell and seed: kernel, guest, endpoints, sources."""
    scoring: Text
    """Of the sources and parameters that computed the scores."""
    programs: dict[Text, Text] = {}
    """Of each program of another package that sent a flow, by name."""


def folder_name(text: str) -> str:
    """Return a text with anything but letters, digits, dots and underscores as dashes, for the name of a folder."""
    return re.sub(r"[^\w.]+", "-", text, flags=re.ASCII).strip("-.") or "run"


def _plain_name(run: str) -> str:
    # It becomes the name of a folder, even if the manifest comes from a third party.
    if not re.fullmatch(r"\w[\w.-]{0,200}", run, re.ASCII) or run.endswith(PARTIAL):
        raise ValueError(f"{run!r}: is not a name of a run")
    return run


_LONGEST_PATH, _DEEPEST = 1000, 16
_CHUNK = 1 << 20
#: One part of a path: no control characters, nothing that another system treats as a separator or a drive.
_PART = re.compile(r"[^\x00-\x1f\x7f\\:]{1,200}")


class _Paths:
    """The paths allowed in a manifest."""

    def __init__(self) -> None:
        self._taken, self._folders = {MANIFEST, SIGNATURE}, set[str]()

    def add(self, path: str) -> None:
        """Raise ValueError for a path that leads out of the run, or equals another path when case is ignored."""
        parts = path.split("/")
        bad = any(part in ("", ".", "..") or not _PART.fullmatch(part) or not part.isprintable() for part in parts)
        if bad or len(path) > _LONGEST_PATH or len(parts) > _DEEPEST:
            raise ValueError(f"{path[:100]!r}: leads outside the run, or is not a plain path")
        if len(parts) > 1 and parts[-1] == MANIFEST:
            raise ValueError(f"{path!r}: a run in a run")
        if parts[-1].endswith(FRESH) or path == BALLAST:
            raise ValueError(f"{path!r}: is the name of a file that is being written")
        folded = unicodedata.normalize("NFC", path).casefold()
        above = {folded[: at.start()] for at in re.finditer("/", folded)}
        if folded in self._taken or folded in self._folders or above & self._taken:
            raise ValueError(f"{path!r}: equals another path when case is ignored")
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
    reasons: Annotated[list[Reason], Field(max_length=1000)] = []
    """Why it is invalid or unfinished."""
    command_line: Annotated[list[Text], Field(max_length=1000)] = []
    seed: int | None = None
    drawn: Annotated[dict[Text, Text], Field(max_length=1000)] = {}
    """What the seed drew (`sojourn.bottleneck.rig`): name → value with its unit; empty for an exact run."""
    git: GitState | None = None
    versions: Annotated[dict[Text, Text], Field(max_length=5000)] = {}
    files: Annotated[dict[str, FileEntry], Field(max_length=MOST_FILES), AfterValidator(_inside)] = {}
    required: Annotated[list[Text], Field(max_length=MOST_FILES)] = []
    """Files that a run of this kind must have, noted when it was recorded."""
    cache: Cached | None = None
    """Of the run of a matrix's cell, which is kept while it is the same."""
    bundle: Bundled | None = None
    pruned: Annotated[dict[str, FileEntry], Field(max_length=MOST_FILES), AfterValidator(_inside)] = {}
    """The former entries of files that were pruned later (see `prune`)."""

    @property
    def state(self) -> str:
        """The status in words."""
        return status_words(self.status)


def status_words(stored: str) -> str:
    """Return a status, outcome or verdict in words: the stored one of an invalid run is `void`."""
    return "invalid" if stored == "void" else stored.replace("_", " ")


def check_complete(manifest: Manifest, where: object, *further: str) -> None:
    """Raise StoreError if a required file, or one of `further`, was removed from folder and manifest."""
    left_out = manifest.bundle.left_out if manifest.bundle else []
    known = {*manifest.files, *manifest.pruned, *left_out}
    if gone := [name for name in dict.fromkeys((*manifest.required, *further)) if name not in known]:
        more = f" and {len(gone) - 1} more are" if len(gone) > 1 else " is"
        there = len(manifest.files)
        raise StoreError(f"{where}: {there} of {there + len(gone)} files: {gone[0]}{more} missing", code="missing")


def is_run(folder: Path) -> bool:
    """Return whether a folder is a run directory. Raises StoreError if it does not exist."""
    if not folder.exists():
        raise StoreError(f"{folder}: no such file or folder", code="not-a-run")
    return (folder / MANIFEST).exists()


def require_outside_runs(path: Path, option: str) -> None:
    """Raise StoreError if a path at which an option has files written is a run or inside one.

    Such a file could replace evidence, and `bundle verify` refuses a run with further files.
    """

    def of_run(place: Path) -> bool:
        try:
            return bool(read_manifest(place))
        except (StoreError, OSError):  # others call their files manifest.json too
            return False

    if inside := next(filter(of_run, (real := path.resolve(), *real.parents)), None):
        raise StoreError(
            f"--{option}: {path}: inside the run {inside.name}, whose files are sealed; give another path",
            code="conflict",
        )


def run_folders(folder: Path) -> list[Path]:
    """Return the run directories in a folder, and those of a matrix's cells in it (`<cell>/seed-<n>`), by name.

    Those that end in `.partial` are among them.
    """
    runs = {path.parent for place in ("*", "*/seed-*") for path in folder.glob(f"{place}/{MANIFEST}")}
    return sorted(run for run in runs if not run.name.endswith(SET_ASIDE))


def read_manifest(run: Path) -> Manifest:
    """Return the manifest of a run directory. Raises StoreError if it is missing or invalid."""
    try:
        with open(run / MANIFEST, "rb", opener=plain) as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise StoreError(f"{run}: {_no_run(run, error)}", code="not-a-run") from error
    if len(text) > LARGEST:
        raise StoreError(f"{run}: {MANIFEST}: is larger than the allowed {LARGEST} bytes", code="too-large")
    return parse_manifest(text, str(run))


def _no_run(place: Path, error: OSError) -> str:
    """Return why a place is not a run directory, and which one to give. Raises StoreError if it does not exist."""
    if not is_run(place) and not place.is_dir() and is_run(place.parent):
        return f"a file of a run; give its folder {place.parent}"
    if runs := run_folders(place):
        return f"a folder with {count_of(len(runs), 'run')}; name one of them, such as {runs[0]}"
    return f"not a run directory: {MANIFEST}: {error.strerror}"


def parse_manifest(text: bytes, name: str) -> Manifest:
    """Return the manifest in `text`. Raises StoreError with `name` and the first field that is wrong."""
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        raise StoreError(f"{name}: {MANIFEST}: {first_wrong(error, 'it')}", code="damaged") from error


def manifest_text(manifest: Manifest) -> bytes:
    """Return the bytes of `manifest.json`."""
    return manifest.model_dump_json(indent=1).encode() + b"\n"


def write_manifest(run: Path, manifest: Manifest) -> None:
    """Write `manifest.json` atomically, so that a reader sees the old or the new one. Raises OSError."""
    replace_file(run / MANIFEST, manifest_text(manifest))


def hash_files(
    run: Path, known: dict[str, FileEntry] | None = None, look: Callable[[], None] = lambda: None
) -> dict[str, FileEntry]:
    """Return path and hash of every file except the manifest, sorted.

    Files in `known` are not hashed again, and new ones are added to it. `look` is called often; its exceptions
    are raised. Raises StoreError for a link, and for anything that a manifest cannot hold.
    """
    entries, paths = {} if known is None else known, _Paths()
    refused: StoreError | None = None  # the other files are still hashed
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        if path.is_symlink():
            refused = refused or StoreError(
                f"{printable(str(path))}: is a link; a run may hold only plain files", code="not-a-file"
            )
            continue
        if not path.is_file() or name in (MANIFEST, SIGNATURE, BALLAST) or name.endswith(FRESH):
            continue
        try:
            paths.add(name)
        except ValueError as wrong:
            refused = refused or StoreError(f"{run}: {wrong}", code="invalid-value")
            continue
        if name not in entries:
            if len(entries) == MOST_FILES:
                raise StoreError(
                    f"{run}: more than {MOST_FILES} files; a run has at most {MOST_FILES}", code="too-large"
                )
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
    """Lock a finished run's manifest for changes, so that no change is lost. Raises OSError."""
    if run.suffix == PARTIAL:  # its lock is held by whoever records it, and that is the caller
        yield
        return
    with opened(run) as held:
        with suppress(OSError):  # no locks there
            lock(held, wait=True)
        yield


def reseal(run: Path, *names: str, reasons: Sequence[Reason] | None = None, scoring: str = "") -> None:
    """Rehash the derived files `names` (report, scores), or forget one that is gone; all others stay as recorded.

    `reasons`, when given, replace those of the manifest, and with them its status: void with reasons, else
    valid; an interrupted run stays interrupted. `scoring`, when given, replaces that of its `cache`.
    """
    with _alone(run):
        manifest = read_manifest(run)
        if reasons is not None:
            manifest.reasons = list(reasons)
            if manifest.status != "interrupted":
                manifest.status = "void" if reasons else "valid"
        if scoring and manifest.cache:
            manifest.cache = manifest.cache.model_copy(update={"scoring": scoring})
        others = {name: entry for name, entry in manifest.files.items() if name not in names}
        derived = {name: hash_file(run / name) for name in names if (run / name).exists()}
        manifest.files = dict(sorted((others | derived).items()))
        flush(run)
        write_manifest(run, manifest)


def store_derived(run: Path, name: str, content: bytes) -> Path:
    """Write a derived file of a finished run, let its manifest hold it, and return its path.

    Raises StoreError, OSError.
    """
    replace_file(run / name, content)
    reseal(run, name)
    return run / name


def prune(run: Path, name: str) -> None:
    """Remove the file `name` of a finished run; the manifest keeps its hash. Raises StoreError, OSError."""
    with _alone(run):
        manifest = read_manifest(run)
        if name in manifest.files:
            manifest.pruned[name] = manifest.files.pop(name)
            write_manifest(run, manifest)
        elif name not in manifest.pruned:  # a kill may have interrupted an earlier removal
            raise StoreError(f"{run}: {name}: not in the manifest", code="unexpected-file")
        (run / name).unlink(missing_ok=True)
