# SPDX-License-Identifier: Apache-2.0
"""Evidence bundles: a run as one deterministic ``.tar.zst``, and the check of either against its manifest.

The manifest is the first member, so an archive is checked in one pass without being unpacked, and nothing in
it that the manifest does not announce is ever read.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO

import zstandard

from harness.store import MANIFEST, Manifest, StoreError, hash_file, parse_manifest, read_manifest

SUFFIX = ".tar.zst"
#: A manifest is some kilobytes, a run some hundred megabytes; beyond these an archive is not ours.
_MAX_MANIFEST = 16 << 20
_MAX_TOTAL = 64 << 30
_MAX_WINDOW = 128 << 20


class BundleError(RuntimeError):
    """A bundle or a run directory is not what its manifest says; the message names the first difference."""


def export(run: Path, output: Path | None = None) -> Path:
    """Check the run, write it as one archive and return its path (by default ``<run>.tar.zst`` beside the
    run).

    The same run gives the same bytes: members sorted after the manifest, no times, no owners. Raises
    BundleError when the run is not as its manifest says, or when the output exists.
    """
    manifest = verify(run)
    output = output or run.parent / (manifest.run + SUFFIX)
    partial = output.with_name(output.name + ".partial")
    if output.exists():
        raise BundleError(f"{output}: exists; give another -o")
    try:
        with (
            partial.open("xb") as raw,
            zstandard.ZstdCompressor(level=6).stream_writer(raw) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            for name in [MANIFEST, *sorted(manifest.files)]:
                info = tarfile.TarInfo(f"{manifest.run}/{name}")
                info.size = (run / name).stat().st_size
                info.mode = 0o644
                with (run / name).open("rb") as file:
                    tar.addfile(info, file)
        partial.rename(output)
    except FileExistsError as error:
        raise BundleError(f"{partial}: exists; another export is running, or was killed: remove it") from error
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise BundleError(f"{output}: {error.strerror or error}") from error
    return output


def verify(path: Path, derived: Collection[str] = ()) -> Manifest:
    """Check every hash of a bundle or a run directory and return its manifest.

    In a directory the files named in ``derived`` may be other ones or missing: they can be computed again.
    Raises BundleError naming the first file that differs, is missing or is not in the manifest, or what else
    is wrong (a link, a path that leads outside, a size beyond what the manifest says).
    """
    try:
        if path.is_dir():
            return _verify_directory(path, derived)
        with path.open("rb") as raw:
            return _verify_archive(raw, path.name)
    except StoreError as error:
        raise BundleError(str(error)) from error
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror or error}") from error
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        raise BundleError(f"{path}: damaged archive: {error}") from error


def _verify_directory(run: Path, derived: Collection[str]) -> Manifest:
    manifest = _sealed(read_manifest(run), str(run))
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise BundleError(f"{name}: no plain file")
        if path.is_file() and name not in {MANIFEST, *manifest.files, *derived}:
            raise BundleError(f"{name}: extra: not in the manifest")
    for name, entry in manifest.files.items():
        if name in derived:
            continue
        if not (run / name).is_file():
            raise BundleError(f"{name}: missing")
        if hash_file(run / name) != entry:
            raise BundleError(f"{name}: differs from the manifest")
    return manifest


def _verify_archive(raw: IO[bytes], name: str) -> Manifest:
    seen: set[str] = set()
    with _members(raw) as members:
        tar, queue = members, iter(members)
        first = next(queue, None)
        if first is None or not first.isreg() or not first.name.endswith("/" + MANIFEST):
            raise BundleError(f"{name}: no bundle: its first member is not {MANIFEST}")
        if first.size > _MAX_MANIFEST:
            raise BundleError(f"{first.name}: {first.size} bytes is too much for a manifest")
        manifest = _sealed(parse_manifest(_content(tar, first).read(), name), name)
        if first.name != f"{manifest.run}/{MANIFEST}":
            raise BundleError(f"{first.name}: the manifest is of the run {manifest.run}")
        for member in queue:
            inside = _inside(member, manifest.run)
            if inside in seen:
                raise BundleError(f"{inside}: twice in the archive")
            if inside not in manifest.files:
                raise BundleError(f"{inside}: extra: not in the manifest")
            entry = manifest.files[inside]
            if member.size != entry.size:
                raise BundleError(f"{inside}: differs from the manifest: {member.size} bytes, not {entry.size}")
            if hashlib.file_digest(_content(tar, member), "sha256").hexdigest() != entry.sha256:
                raise BundleError(f"{inside}: differs from the manifest")
            seen.add(inside)
    for missing in sorted(manifest.files.keys() - seen):
        raise BundleError(f"{missing}: missing")
    return manifest


@contextmanager
def _members(raw: IO[bytes]) -> Iterator[tarfile.TarFile]:
    unpacked = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(raw)
    with unpacked, tarfile.open(fileobj=unpacked, mode="r|") as tar:
        yield tar


def _inside(member: tarfile.TarInfo, run: str) -> str:
    parts = PurePosixPath(member.name).parts
    if member.name.startswith("/") or ".." in parts or len(parts) < 2 or parts[0] != run:
        raise BundleError(f"{member.name}: leads outside of the run {run}")
    if not member.isreg() or member.issparse():
        raise BundleError(f"{member.name}: no plain file")
    return "/".join(parts[1:])


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> BufferedReader:
    content = tar.extractfile(member)
    if not isinstance(content, BufferedReader):
        raise BundleError(f"{member.name}: no plain file")
    return content


def _sealed(manifest: Manifest, name: str) -> Manifest:
    if manifest.finished is None:
        raise BundleError(f"{name}: the run was killed before its files were hashed: {'; '.join(manifest.reasons)}")
    for path in manifest.files:
        if path.startswith("/") or ".." in PurePosixPath(path).parts or path != str(PurePosixPath(path)):
            raise BundleError(f"{path}: leads outside of the run")
    if "/" in manifest.run or manifest.run in ("", ".", ".."):
        raise BundleError(f"{manifest.run!r}: is no name of a run")
    if sum(entry.size for entry in manifest.files.values()) > _MAX_TOTAL:
        raise BundleError(f"{name}: its files are said to be more than {_MAX_TOTAL >> 30} GiB")
    return manifest
