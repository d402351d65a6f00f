# SPDX-License-Identifier: Apache-2.0
"""What `sojourn build` makes, as one archive: another machine takes it instead of building, and needs no compiler.

The first member is an index with the hash of every file, the second its signature, if any. Whoever takes an archive
requires a signature by a known key or the index's digest, before anything else in it is believed. Entries keep their
names, which are digests of what decides them: code that needs another kernel does not find it here, and builds it.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal
from urllib.request import urlopen

import zstandard
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sojourn.hardware import build_tool
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import ProgressCallback
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.files import replace_file
from sojourn.hardware.machine.messages import first_wrong
from sojourn.harness.bundle.archive import copied, opened_tar
from sojourn.harness.store.signature import sign, signer

KINDS = ("bulk", "clip", "confine", "desktop", "kernel", "web")
"""Folders of the cache whose entries may be in an archive: none has a secret or what a user wrote."""
_INDEX, _SIGNATURE = "index.json", "index.json.sig"
_LARGEST, _LONGEST_SIGNATURE = 64 << 20, 64 << 10  # bytes
_CHUNK = 1 << 20
_ANSWER_S = 60


Member = tuple[tarfile.TarInfo, BufferedReader | None]
"""A member of an archive, and its content if it is a file, to read before the next one."""


class PrebuiltError(CodedError):
    """An archive of built things cannot be written, or must not be taken; one line."""


class _PackedFile(BaseModel):
    """A file, or a symbolic link, whose content is its target."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    size: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Index(BaseModel):
    """The content of an archive: by the entries' names in the cache, their files."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: Literal[1] = 1
    compiler: str
    """Of the programs: what names them where this machine has another compiler, or none."""
    entries: dict[
        Annotated[str, Field(pattern=rf"^({'|'.join(KINDS)})/(players-)?[0-9a-f]{{16,24}}$")], dict[str, _PackedFile]
    ]


def check_output(output: Path, key: Path | None = None) -> None:
    """Raise PrebuiltError or SignatureError if `pack` cannot write this archive, or not sign it by this ssh key."""
    if output.exists():
        raise PrebuiltError(f"{output}: exists; give another file", code="exists")
    if key:
        sign(b"", key)


def pack(
    entries: Sequence[Path], output: Path, key: Path | None = None, progress: ProgressCallback | None = None
) -> str:
    """Write entries of the cache as one archive, signed by an ssh `key` if given; return its index's SHA-256 in hex.

    The same entries give the same bytes: members are sorted and have no times and no owners. Raises PrebuiltError if
    `output` exists or an entry must not be in an archive; SignatureError, OSError.
    """
    check_output(output)
    named = {f"{entry.parent.name}/{entry.name}": entry for entry in sorted(entries)}
    try:
        index = _Index(
            compiler=build_tool.compiler(),
            entries={
                name: {
                    file: _PackedFile(size=size, sha256=sha256)
                    for file, (size, sha256) in cache.contents(entry).items()
                    if sha256 != cache.DEVICE  # a machine mounts its own /dev over those that root could make
                }
                for name, entry in named.items()
            },
        )
    except ValidationError as wrong:
        raise PrebuiltError(f"{output}: cannot pack: {first_wrong(wrong)}", code="unsupported") from wrong
    text = index.model_dump_json().encode()
    head = {_INDEX: text, **({_SIGNATURE: sign(text, key)} if key else {})}
    total = sum(file.size for files in index.entries.values() for file in files.values()) or 1
    done, partial = 0, output.with_name(f".{output.name}.partial")
    try:
        with (
            partial.open("wb") as raw,
            zstandard.ZstdCompressor(level=9, threads=-1).stream_writer(raw, closefd=False) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
        ):
            for name, content in head.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            for name, entry in named.items():
                for path in sorted(entry.rglob("*")):
                    done += _add(tar, f"{name}/{path.relative_to(entry)}", path)
                    if progress:
                        progress(done / total)
        partial.rename(output)
    except ValueError as wrong:  # a path that tar's headers cannot hold
        raise PrebuiltError(f"{output}: cannot pack: {wrong}", code="unsupported") from wrong
    finally:
        partial.unlink(missing_ok=True)
    return hashlib.sha256(text).hexdigest()


def _add(tar: tarfile.TarFile, name: str, path: Path) -> int:
    """Add a file, link or folder to an archive and return the bytes of its content."""
    info, status = tarfile.TarInfo(name), path.lstat()
    info.mode = 0o755 if path.is_dir() or status.st_mode & 0o100 else 0o644
    if path.is_symlink():
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
        tar.addfile(info)
    elif path.is_dir():
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif path.is_file():
        info.size = status.st_size
        with path.open("rb") as file:
            tar.addfile(info, file)
    return info.size


def take(
    archive: Path, signers: Path | None = None, sha256: str = "", progress: ProgressCallback | None = None
) -> list[Path]:
    """Check an archive and put its entries into the cache; return those that were not there before.

    Its index must be signed by one of the `signers`, and have this `sha256`; the caller gives at least one of them.
    Entries that are in the cache stay as they are.
    Raises PrebuiltError if the archive is not what its index says, SignatureError, BuildError, OSError.
    """
    cache.check_owner()
    cache.root().mkdir(parents=True, exist_ok=True)
    with _scratch() as scratch, _members(archive) as members:
        text, signature, rest = _head(archive, members)
        digest = hashlib.sha256(text).hexdigest()
        if digest != (sha256 or digest):
            raise PrebuiltError(f"{archive}: has the digest {digest}, not {sha256}", code="altered")
        if signers:
            if signature is None:
                raise PrebuiltError(f"{archive}: is not signed; check it with --sha256", code="unknown-signer")
            signer(text, signature, signers)
        try:
            index = _Index.model_validate_json(text)
        except ValidationError as wrong:
            raise PrebuiltError(f"{archive}: {_INDEX}: {first_wrong(wrong)}", code="damaged") from wrong
        _unpack(archive, index, rest, scratch, progress)
        new = [name for name in index.entries if not (cache.root() / name).is_dir()]
        for name in index.entries:
            cache.build_once(cache.root() / name, lambda folder, name=name: _move(scratch / name, folder))  # type: ignore[misc]
    replace_file(cache.root() / build_tool.TAKEN, index.compiler.encode())
    return [cache.root() / name for name in new]


@contextmanager
def fetched(place: str, progress: ProgressCallback | None = None) -> Iterator[Path]:
    """Give the archive at a path or an https address, of which a copy is in the cache for the block.

    Raises PrebuiltError.
    """
    if "://" not in place:
        if not (file := Path(place).expanduser()).is_file():
            raise PrebuiltError(f"--from {place}: no such file", code="missing")
        yield file
        return
    if not place.startswith("https://"):
        raise PrebuiltError(f"--from {place}: give an https:// address, or a file", code="insecure")
    cache.root().mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=cache.root(), prefix=".fetched-") as copy:
        try:
            with urlopen(place, timeout=_ANSWER_S) as answer:
                total, done = int(answer.headers.get("Content-Length") or 0), 0
                while chunk := answer.read(_CHUNK):
                    done += copy.write(chunk)
                    if progress and total:
                        progress(done / total)
        except (OSError, ValueError, HTTPException) as failed:
            raise PrebuiltError(f"--from {place}: {failed}", code="unreachable") from failed
        copy.flush()
        yield Path(copy.name)


@contextmanager
def _scratch() -> Iterator[Path]:
    """Give an empty folder in the cache, of which there is one: what a killed process left there is removed."""
    folder = cache.root() / ".prebuilt"
    with cache.locked(folder.with_suffix(".lock")):
        cache.remove_tree(folder)
        folder.mkdir()
        try:
            yield folder
        finally:
            cache.remove_tree(folder)


def _move(source: Path, folder: Path) -> None:
    for path in source.iterdir():
        path.rename(folder / path.name)
    cache.normalise_mtimes(folder)


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[Member]]:
    try:
        with archive.open("rb") as raw, opened_tar(raw) as tar:
            yield ((member, _content(tar, member)) for member in tar)
    except (tarfile.TarError, zstandard.ZstdError, EOFError) as broken:
        raise PrebuiltError(
            f"{archive}: not an archive of `sojourn build --pack`: {broken}", code="damaged"
        ) from broken


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> BufferedReader | None:
    content = tar.extractfile(member) if member.isreg() else None
    return content if isinstance(content, BufferedReader) else None


def _head(archive: Path, members: Iterator[Member]) -> tuple[bytes, bytes | None, Iterator[Member]]:
    """Return index, signature, and the members that follow. Raises PrebuiltError."""
    member, content = next(members, (None, None))
    if member is None or content is None or member.name != _INDEX or member.size > _LARGEST:
        raise PrebuiltError(f"{archive}: not an archive of `sojourn build --pack`", code="damaged")
    text, signature = content.read(), None
    following = next(members, None)
    if following and following[0].name == _SIGNATURE and following[1] and following[0].size <= _LONGEST_SIGNATURE:
        signature, following = following[1].read(), next(members, None)

    def rest() -> Iterator[Member]:
        if following:
            yield following
            yield from members

    return text, signature, rest()


def _unpack(
    archive: Path,
    index: _Index,
    members: Iterator[Member],
    scratch: Path,
    progress: ProgressCallback | None,
) -> None:
    """Write the members of an archive below `scratch`, each checked against the index. Raises PrebuiltError."""
    missing = {f"{name}/{file}": it for name, files in index.entries.items() for file, it in files.items()}
    total, done = sum(it.size for it in missing.values()) or 1, 0
    links: dict[Path, str] = {}
    for name in index.entries:
        (scratch / name).mkdir(parents=True)
    for member, content in members:
        target = scratch / _inside(archive, member.name, index.entries)
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        expected = missing.pop(member.name, None)
        if expected is None:
            raise PrebuiltError(f"{archive}: {member.name}: not in its index", code="unexpected-file")
        target.parent.mkdir(parents=True, exist_ok=True)
        if member.issym():
            links[target], digest = member.linkname, hashlib.sha256(member.linkname.encode()).hexdigest()
        elif content is None or member.size != expected.size:
            raise PrebuiltError(f"{archive}: {member.name}: differs from its index", code="altered")
        else:
            digest = copied(content, target)
            target.chmod(0o755 if member.mode & 0o100 else 0o644)
        if digest != expected.sha256:
            raise PrebuiltError(f"{archive}: {member.name}: differs from its index", code="altered")
        done += expected.size
        if progress:
            progress(done / total)
    if missing:
        raise PrebuiltError(f"{archive}: {min(missing)}: missing", code="missing")
    for link, leads_to in links.items():  # last, so that nothing is written through one
        link.symlink_to(leads_to)


def _inside(archive: Path, name: str, entries: Mapping[str, object]) -> PurePosixPath:
    """Return the path of a member. Raises PrebuiltError unless it is in one of the entries."""
    path = PurePosixPath(name)
    if ".." in path.parts or path.is_absolute() or "/".join(path.parts[:2]) not in entries or len(path.parts) < 3:
        raise PrebuiltError(f"{archive}: {name}: leads outside its entries", code="outside")
    return path
