# SPDX-License-Identifier: Apache-2.0
"""Evidence bundles: a run as one deterministic `.tar.zst`; check bundle or run against its manifest; import a bundle.

The manifest is the first member, its signature, if any, the second. So an archive is checked in one pass, and members
that are not in the manifest are never read. An archive may come from a third party, so its resource use is bounded.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path, PurePosixPath
from tarfile import EmptyHeaderError, EOFHeaderError, HeaderError, ReadError, TarFile  # type: ignore[attr-defined]
from typing import IO, Self

import zstandard

from sojourn.hardware.machine.cache import remove_tree
from sojourn.hardware.machine.files import flush, lock, opened, owner_only, sync_folder
from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.scratch import scratch_folder
from sojourn.harness.store.integrity import (
    LONGEST_SIGNATURE,
    Checked,
    IntegrityError,
    check_run,
    differs,
    sealed,
    signed_by,
)
from sojourn.harness.store.manifest import (
    LARGEST,
    MANIFEST,
    PARTIAL,
    SIGNATURE,
    Manifest,
    StoreError,
    hash_file,
    manifest_text,
    parse_manifest,
)

_LOG = logging.getLogger("sojourn.bundle")
SUFFIX = ".tar.zst"
FILES = f"-files{PARTIAL}"
"""Suffix of the folder with the files of a bundle in progress."""
_IMPORT = ".import-"
#: What commands write in a folder of runs: pages, tables, folders. A run of such a name would be in their way.
_WRITTEN = re.compile(r"summary|attempts|.*\.(html|json|csv|toml|xml)", re.IGNORECASE)
_MAX_WINDOW = 128 << 20
#: Logs shrink to a tenth, recordings and captures not at all. Below the minimum size, any ratio is harmless.
_MAX_RATIO, _LEAST = 1000, 256 << 20
#: Header types that describe the next member, of any length that tarfile accepts; ustar has none of them.
_EXTENSIONS = frozenset(
    (
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
        tarfile.GNUTYPE_SPARSE,
    )
)
_CHUNK = 1 << 20

Judge = Callable[[Path, Manifest], object]
"""Called with an unpacked run, before it gets its name; its errors stop the import."""
BytesDone = Callable[[int], None]
"""Called with the bytes done since the last call."""


class BundleError(IntegrityError):
    """A bundle or a run is not what its manifest says, or a bundle cannot be written."""


class AlreadyImportedError(BundleError):
    """The results hold the run of a bundle, with the same manifest."""

    def __init__(self, run: Path) -> None:
        super().__init__(f"{run} exists already; nothing was changed", code="exists")
        self.run = run


@contextmanager
def claimed(output: Path) -> Iterator[IO[bytes]]:
    """Open the file that becomes `output` if the block succeeds, and is removed otherwise.

    The leftover of a killed export is reused. Raises BundleError if another export writes the same archive, or if it
    cannot be written.
    """
    partial = output.with_name(output.name + PARTIAL)
    try:
        with open(partial, "ab", opener=lambda name, how: os.open(name, how, 0o600)) as raw:
            try:
                if not lock(raw.fileno()):
                    raise FileNotFoundError
                if not os.path.samestat(os.fstat(raw.fileno()), partial.stat()):
                    raise FileNotFoundError  # it has been renamed since it was opened
            except FileNotFoundError as held:
                raise BundleError(f"{partial}: in use by another export", code="in-use") from held
            try:
                raw.truncate(0)
                os.fchmod(raw.fileno(), 0o600)  # like the run's files
                yield raw
                raw.flush()
                os.fsync(raw.fileno())
                partial.rename(output)
                sync_folder(output.parent)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise BundleError(f"{error.filename or output}: {error.strerror or error}", code="unreadable-file") from error


def _own_file(path: Path) -> int:
    """Open a file for writing, created if missing. Raises OSError for a link."""
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)


def sweep(folder: Path) -> None:
    """Remove leftovers of killed exports in a folder: nobody holds a lock on them."""
    for scratch in folder.glob(f".*{SUFFIX}{FILES}"):
        with suppress(OSError):  # a link is not its lock
            os.close(_own_file(folder / (scratch.name[1:].removesuffix(FILES) + PARTIAL)))
    for partial in sorted(folder.glob(f"*{SUFFIX}{PARTIAL}")):
        with suppress(OSError), open(_own_file(partial), "ab") as raw:
            if lock(raw.fileno()) and os.path.samestat(os.fstat(raw.fileno()), partial.stat()):
                remove_tree(scratch_of(partial.with_name(partial.name.removesuffix(PARTIAL))))
                partial.unlink()
                _LOG.warning("%s: removed, left by a killed export", partial)


def scratch_of(output: Path) -> Path:
    """Return the folder of an archive's generated files; only the exporter with the claim on the archive uses it."""
    return output.with_name(f".{output.name}{FILES}")


def pack(
    manifest: Manifest,
    files: Mapping[str, Path | bytes],
    into: IO[bytes],
    signature: bytes | None = None,
    done: BytesDone = lambda _: None,
    text: bytes = b"",
) -> None:
    """Write the `files` of a run (by their paths in it) as one archive; `text` is that of the manifest, if signed.

    The same files give the same bytes: members sorted after the manifest, no times, no owners. Raises BundleError for
    a name or a size that tar's headers cannot hold, and for a file that differs from the manifest when it is read.
    """
    head: dict[str, Path | bytes] = {MANIFEST: text or manifest_text(manifest)}
    if signature:
        head[SIGNATURE] = signature
    try:
        with (
            zstandard.ZstdCompressor(level=6).stream_writer(into, closefd=False) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
        ):
            for name, content in [*head.items(), *sorted(files.items())]:
                entry = manifest.files.get(name)
                info = tarfile.TarInfo(f"{manifest.run}/{name}")
                info.size = len(content) if isinstance(content, bytes) else content.stat().st_size
                info.mode = 0o644
                with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
                    tar.addfile(info, read := _Read(file, done))
                if entry and (read.digest() != entry.sha256 or info.size != entry.size):
                    raise BundleError(
                        f"{differs(name, read.digest(), entry)}: it changed during the export; export again",
                        code="altered",
                    )
    except ValueError as error:
        raise BundleError(f"{manifest.run}: {error}", code="unsupported") from error


class _Read:
    """A file that counts and hashes the bytes read."""

    def __init__(self, file: IO[bytes], done: BytesDone) -> None:
        self._file, self._done, self._total = file, done, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self._total.update(content)
        self._done(len(content))
        return content

    def digest(self) -> str:
        """Return the SHA-256 in hex of what was read."""
        return self._total.hexdigest()


def verify(path: Path, derived: Collection[str] = ()) -> Manifest:
    """Check every hash of a bundle or a run directory and return its manifest; see `check`."""
    return check(path, derived).manifest


def check(path: Path, derived: Collection[str] = (), signers: Path | None = None) -> Checked:
    """Check every hash of a bundle or a run directory, and with `signers` also its signature.

    In a directory, the files named in `derived` may differ or be missing, because they can be recomputed. Pruned files
    are missing and not reported. Raises BundleError that names the first file that differs, is missing or is not in the
    manifest, or any other problem (a link, a path that leads outside, a size beyond the manifest's).
    """
    with _one_line(path):
        return check_run(path, derived, signers) if path.is_dir() else _check_archive(path, signers)


@contextmanager
def unpacked(file: Path, signers: Path | None = None) -> Iterator[tuple[Path, Checked]]:
    """Check a bundle as `check` does while unpacking it, and yield the run's directory, removed after the block."""
    scratch = scratch_folder("-bundle")
    try:
        with _one_line(file):
            checked = _check_archive(file, signers, scratch)
        yield scratch / checked.manifest.run, checked
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def import_bundle(
    file: Path, results: Path, signers: Path | None = None, judge: Judge = lambda run, manifest: None
) -> Path:
    """Check a bundle, unpack it into the results folder and return the run's directory.

    It is unpacked into a scratch folder there and renamed when everything has been checked, by `judge` last. Raises
    BundleError as `check` does and for errors of `judge`, AlreadyImportedError if the results hold the same run, and
    BundleError if they hold another of this name.
    """
    with _one_line(file):
        results.mkdir(parents=True, exist_ok=True)
        with _import_folder(results) as scratch:
            manifest = _check_archive(file, signers, scratch).manifest
            unpacked_run = scratch / manifest.run
            run = results / (manifest.run + (PARTIAL if manifest.status == "interrupted" else ""))
            if run.exists():
                if (run / MANIFEST).is_file() and hash_file(run / MANIFEST) == hash_file(unpacked_run / MANIFEST):
                    raise AlreadyImportedError(run)
                raise BundleError(f"{run} exists already; nothing was changed", code="exists")
            judge(unpacked_run, manifest)
            owner_only(scratch)
            flush(scratch)
            unpacked_run.rename(run)
            sync_folder(results)
    return run


@contextmanager
def _import_folder(results: Path) -> Iterator[Path]:
    """Create a scratch folder in the results for one import, locked until its end; remove those of killed imports.

    On a file system without locks, none is removed.
    """
    for left in results.glob(f"{_IMPORT}*{PARTIAL}"):
        with suppress(OSError), opened(left) as folder:
            if lock(folder):
                shutil.rmtree(left, ignore_errors=True)
    scratch, held = _locked_scratch(results)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os.close(held)


def _locked_scratch(results: Path) -> tuple[Path, int]:
    """Create a scratch folder and lock it, and return it with its descriptor."""
    while True:
        scratch = Path(tempfile.mkdtemp(prefix=_IMPORT, suffix=PARTIAL, dir=results))
        # Another import may take it for a killed one's until it is locked.
        with suppress(FileNotFoundError):
            held = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):
                lock(held, wait=True)
            if scratch.exists():
                return scratch, held
            os.close(held)


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Convert errors to BundleError; those of an archive begin with its path."""
    try:
        yield
    except AlreadyImportedError:
        raise
    except (IntegrityError, StoreError) as error:
        if path.is_dir() or str(error).startswith(printable(f"{path}: ")):
            raise BundleError(str(error), code=error.code) from error
        raise BundleError(f"{path}: {error}", code=error.code) from error
    except OSError as error:
        raise BundleError(f"{error.filename or path}: {error.strerror or error}", code="unreadable-file") from error
    # The last ones: tarfile's errors for headers that no tar writes.
    except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError, OverflowError, RecursionError) as error:
        with suppress(OSError), path.open("rb") as file:
            if file.read(len(zstandard.FRAME_HEADER)) != zstandard.FRAME_HEADER:
                raise BundleError(f"{path}: not a bundle; give a run or an archive (.tar.zst)") from error
        raise BundleError(f"{path}: damaged archive: {error}") from error


def _check_archive(file: Path, signers: Path | None, into: Path | None = None) -> Checked:
    """Check an archive, and write the checked files into the empty folder `into`, if given."""
    name = str(file)
    with file.open("rb") as raw, opened_tar(raw) as tar:
        members = iter(tar)
        first = next(members, None)
        if first is None or not first.isreg() or not first.name.endswith("/" + MANIFEST):
            raise BundleError(f"{name}: not a bundle: its first member is not {MANIFEST}", code="not-a-bundle")
        if not 0 <= first.size <= LARGEST:
            raise BundleError(f"{first.name}: {first.size} bytes are too many for a manifest", code="too-large")
        text = _content(tar, first).read()
        manifest = sealed(parse_manifest(text, name), name)
        if first.name != f"{manifest.run}/{MANIFEST}":
            raise BundleError(f"{first.name}: the manifest belongs to the run {manifest.run}", code="altered")
        if not manifest.bundle:  # it marks an unpacked run as imported
            raise BundleError(
                f"{first.name}: bundle is missing; `sojourn bundle export` writes it", code="not-a-bundle"
            )
        if _WRITTEN.fullmatch(manifest.run):
            raise BundleError(
                f"{manifest.run}: not a run's name: commands write such a file or folder next to runs",
                code="invalid-value",
            )
        total = sum(entry.size for entry in manifest.files.values())
        if total > max(_LEAST, _MAX_RATIO * file.stat().st_size):
            raise BundleError(
                f"{name}: unpacks to {total} bytes, more than {_MAX_RATIO} times its own size", code="too-large"
            )
        signature: bytes | None = None
        member = next(members, None)
        if member is not None and member.name == f"{manifest.run}/{SIGNATURE}":
            if not 0 <= member.size <= LONGEST_SIGNATURE:
                raise BundleError(f"{SIGNATURE}: {member.size} bytes are too many for a signature", code="too-large")
            signature = _content(tar, member).read()
            member = next(members, None)
        key, who = signed_by(text, signature, file, signers)  # before anything else is believed
        if into:
            into /= manifest.run
            if (free := shutil.disk_usage(into.parent).free) < total:
                raise BundleError(
                    f"{into.parent.parent}: only {free} bytes free, but the run needs {total}", code="disk-full"
                )
            _write(into, {MANIFEST: text} | ({SIGNATURE: signature} if signature else {}))
        seen: set[str] = set()
        while member is not None:
            inside = _inside(member, manifest.run)
            if inside in seen:
                raise BundleError(f"{inside}: occurs twice in the archive", code="duplicate")
            if inside not in manifest.files:
                raise BundleError(f"{inside}: not in the manifest", code="unexpected-file")
            entry = manifest.files[inside]
            if member.size != entry.size:
                raise BundleError(
                    f"{inside}: differs from the manifest: {member.size} bytes, not {entry.size}", code="altered"
                )
            digest = copied(_content(tar, member), into / inside if into else None)
            if digest != entry.sha256:
                raise BundleError(differs(inside, digest, entry), code="altered")
            seen.add(inside)
            member = next(members, None)
        assert tar.fileobj
        if len(rest := tar.fileobj.read(_CHUNK)) == _CHUNK or any(rest):
            raise BundleError(f"{name}: data after its end", code="trailing-data")
    for missing in sorted(manifest.files.keys() - seen):
        raise BundleError(f"{missing}: missing", code="missing")
    return Checked(manifest, key, who)


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def copied(content: BufferedReader, target: Path | None) -> str:
    """Return the SHA-256 in hex of what is read, and copy it to `target`."""
    if target is None:
        return hashlib.file_digest(content, "sha256").hexdigest()
    total = hashlib.sha256()
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        while chunk := content.read(_CHUNK):
            total.update(chunk)
            file.write(chunk)
    return total.hexdigest()


class _Header(tarfile.TarInfo):
    """A member's header, without extended headers."""

    @classmethod
    def fromtarfile(cls, tarfile: TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except (EOFHeaderError, EmptyHeaderError):
            raise
        except HeaderError as wrong:
            # tarfile would take it for the archive's end, but GNU tar looks for members after it.
            raise ReadError(str(wrong)) from wrong

    # A subclass can act on a header here, before its content is read.
    def _proc_member(self, archive: TarFile) -> Self:
        if self.type in _EXTENSIONS:
            raise ReadError(f"{self.name}: a header of type {self.type!r}")
        return super()._proc_member(archive)  # type: ignore[misc, no-any-return]


@contextmanager
def opened_tar(raw: IO[bytes]) -> Iterator[tarfile.TarFile]:
    """Open a third party's `.tar.zst` in the format ustar to read it once. Raises TarError, ZstdError, EOFError."""
    unpacked = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(raw, read_across_frames=True)
    with unpacked, tarfile.open(fileobj=unpacked, mode="r|", tarinfo=_Header) as tar:
        yield tar


def _inside(member: tarfile.TarInfo, run: str) -> str:
    parts = PurePosixPath(member.name).parts
    if member.name.startswith("/") or ".." in parts or len(parts) < 2 or parts[0] != run:
        raise BundleError(f"{member.name}: leads outside the run {run}", code="outside")
    if not member.isreg() or member.issparse():
        raise BundleError(f"{member.name}: not a plain file", code="not-a-file")
    return "/".join(parts[1:])


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> BufferedReader:
    content = tar.extractfile(member)
    if not isinstance(content, BufferedReader):
        raise BundleError(f"{member.name}: not a plain file", code="not-a-file")
    return content
