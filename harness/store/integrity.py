# SPDX-License-Identifier: Apache-2.0
"""Whether a run directory is what its manifest says, and who signed that."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sojourn.hardware.machine.errors import Code, CodedError
from sojourn.hardware.machine.files import FRESH
from sojourn.hardware.machine.messages import printable
from sojourn.harness.store.manifest import (
    MANIFEST,
    MOST_FILES,
    SIGNATURE,
    FileEntry,
    Manifest,
    StoreError,
    check_complete,
    hash_file,
    read_manifest,
)
from sojourn.harness.store.reasons import joined
from sojourn.harness.store.signature import SignatureError, signer, signing_key

LONGEST_SIGNATURE = 64 << 10
"""Bytes of a signature that are read; one has some hundred."""
#: A run is some hundred megabytes in dozens of files; beyond these it is not ours.
_MAX_TOTAL = 64 << 30


class IntegrityError(CodedError):
    """A run is not what its manifest says; the message names the first difference.

    The names in a run or a bundle are its maker's: the message shows them as one line without control characters.
    """

    def __init__(self, message: str, *, code: Code = "damaged") -> None:
        super().__init__(printable(message), code=code)


@dataclass(frozen=True)
class Checked:
    """A run that is as its manifest says."""

    manifest: Manifest
    key: str = ""
    """The key that signed it, `ED25519 key SHA256:…`; empty if it is not signed."""
    signer: str = ""
    """By whom, where signers were required."""
    stale: bool = False
    """Whether a run has a signature that does not match its present manifest."""


def verify_run(run: Path, derived: Collection[str] = ()) -> Manifest:
    """Check every hash of a run directory and return its manifest; see `check_run`."""
    return check_run(run, derived).manifest


def check_run(run: Path, derived: Collection[str] = (), signers: Path | None = None) -> Checked:
    """Check every hash of a run directory, and with `signers` that one of them signed it.

    The files named in `derived` may be other ones or missing: they can be computed again. Files that were pruned are
    not there, and nothing is said of them. Raises IntegrityError naming the first file that differs, is missing or is
    not in the manifest, or what else is wrong (a link, a size beyond what a run has).
    """
    with _one_line(run):
        manifest = sealed(read_manifest(run), str(run))
        text, signature = (run / MANIFEST).read_bytes(), None
        if (run / SIGNATURE).is_file():
            with (run / SIGNATURE).open("rb") as file:
                signature = file.read(LONGEST_SIGNATURE)
        try:
            key, who = signed_by(text, signature, run, signers)
        except IntegrityError:
            if signers:
                raise
            key = who = ""  # a run that was rescored or pruned later is no longer what was signed
        _compare(run, manifest, derived)
    return Checked(manifest, key, who, stale=signature is not None and not key)


def _compare(run: Path, manifest: Manifest, derived: Collection[str]) -> None:
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise IntegrityError(f"{name}: not a plain file", code="not-a-file")
        known = {MANIFEST, SIGNATURE, *manifest.files, *manifest.pruned, *derived}
        if path.is_file() and name not in known and not name.endswith(FRESH):
            raise IntegrityError(f"{name}: not in the manifest", code="unexpected-file")
    for name, entry in manifest.pruned.items():
        if (run / name).is_file() and (there := hash_file(run / name)) != entry:
            raise IntegrityError(
                f"{name}: was pruned, and is another file now: {_unequal(there.sha256, entry)}", code="altered"
            )
    for name, entry in manifest.files.items():
        if name in derived:
            continue
        if not (run / name).is_file():
            raise IntegrityError(f"{name}: missing", code="missing")
        if (there := hash_file(run / name)) != entry:
            raise IntegrityError(differs(name, there.sha256, entry), code="altered")


def differs(name: str, digest: str, entry: FileEntry) -> str:
    """Return that a file with this SHA-256 in hex is not the one of a manifest's entry, with both digests."""
    return f"{name}: differs from the manifest: {_unequal(digest, entry)}"


def _unequal(digest: str, entry: FileEntry) -> str:
    return f"sha256 {digest[:12]}…, not {entry.sha256[:12]}…"


def sealed(manifest: Manifest, name: str) -> Manifest:
    """Return the manifest of a finished run of a run's size. Raises IntegrityError, StoreError for any other."""
    if manifest.finished is None:
        raise IntegrityError(
            f"{name}: the run was killed before its files were hashed: {joined(manifest.reasons)}", code="unfinished"
        )
    if len(manifest.files) > MOST_FILES:
        raise IntegrityError(f"{name}: {len(manifest.files)} files; a run has at most {MOST_FILES}", code="too-large")
    if sum(entry.size for entry in manifest.files.values()) > _MAX_TOTAL:
        raise IntegrityError(f"{name}: its files exceed {_MAX_TOTAL >> 30} GiB", code="too-large")
    check_complete(manifest, name)
    return manifest


def signed_by(text: bytes, signature: bytes | None, path: Path, signers: Path | None) -> tuple[str, str]:
    """Return by which key a manifest is signed and by whom of the `signers`; empty where it is not signed.

    Raises IntegrityError where the signature is not good, or is missing and `signers` require one.
    """
    if signature is None:
        if signers:
            raise IntegrityError(f"{path}: not signed", code="not-signed")
        return "", ""
    try:
        who = signer(text, signature, signers) if signers else ""
        return signing_key(text, signature), who
    except SignatureError as error:
        raise IntegrityError(f"{MANIFEST}: {error}", code=error.code) from error


@contextmanager
def _one_line(run: Path) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise IntegrityError(str(error), code=error.code) from error
    except OSError as error:
        raise IntegrityError(f"{error.filename or run}: {error.strerror or error}", code="unreadable-file") from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise IntegrityError(f"{run}: damaged: {error}") from error
