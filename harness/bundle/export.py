# SPDX-License-Identifier: Apache-2.0
"""Export runs as bundles: one run or a folder, resumable; unchanged or anonymised; signed."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sojourn.hardware.machine.cache import remove_tree
from sojourn.harness.bundle.archive import (
    SUFFIX,
    BundleError,
    BytesDone,
    check,
    claimed,
    pack,
    scratch_of,
    sweep,
)
from sojourn.harness.bundle.research_object import crate
from sojourn.harness.store.integrity import Checked
from sojourn.harness.store.manifest import (
    CRATE,
    MANIFEST,
    REPORT,
    SIGNATURE,
    Bundled,
    FileEntry,
    Manifest,
    check_complete,
    hash_file,
    is_run,
    manifest_text,
    read_manifest,
)
from sojourn.harness.store.runs import RunStore
from sojourn.harness.store.signature import SignatureError, fingerprint, sign

_LOG = logging.getLogger("sojourn.bundle")
_VIDEO = (".mp4", ".mkv")
_ARCHIVES = (".7z", ".gz", ".tar", ".tgz", ".xz", ".zip", ".zst")

Begin = Callable[[Path, int], BytesDone]
"""Called with a run and the number of bytes to pack."""


def _silent(_run: Path, _size: int) -> BytesDone:
    return lambda _done: None


@dataclass(frozen=True)
class ExportRequest:
    """Options of an export. `key`: the ssh key that signs the bundle."""

    anonymise: bool = False
    without_video: bool = False
    key: Path | None = None

    def name(self, run: str) -> str:
        """Return the name of a run in the bundle."""
        marks = {"-anonymised": self.anonymise, "-without-video": self.without_video}
        # The names of test and cell may be the user's: of these, a digest remains.
        if self.anonymise and (named := re.fullmatch(r"(\d{8}-\d{6}Z)-(?!\w{6}-anonymised).+", run)):
            run = f"{named[1]}-{hashlib.sha256(run.encode()).hexdigest()[:6]}"
        return run + "".join(mark for mark, wanted in marks.items() if wanted and mark not in run)


@dataclass(frozen=True)
class Exported:
    """An archive, and whether it was already complete; or why there is none."""

    run: Path
    archive: Path | None = None
    before: bool = False
    error: str = ""


def runs_at(places: Sequence[Path]) -> list[Path]:
    """Return the runs at `places`: runs or folders of runs. Raises BundleError for a place that is neither."""
    gathered: list[Path] = []
    for place in places:
        runs = [place] if is_run(place) else RunStore(place).runs()
        if not runs:
            raise BundleError(f"{place}: neither a run nor a folder of runs: no {MANIFEST} in it", code="not-a-run")
        gathered += runs
    return list(dict.fromkeys(gathered))


def export_all(
    runs: Sequence[Path],
    output: Path | None = None,
    request: ExportRequest | None = None,
    begin: Begin = _silent,
) -> Iterator[Exported]:
    """Write an archive of every run and yield the results; by default next to the run.

    `output` is the archive of a single run (….tar.zst), otherwise a folder. A complete archive is kept, a damaged one
    is written again. A problem with one run does not stop the others. `begin` is called with every run to pack and its
    bytes, and returns the callback for progress in bytes.
    """
    request = request or ExportRequest()
    single = output if len(runs) == 1 and output and output.name.endswith(SUFFIX) and not output.is_dir() else None
    if output and not single and output.suffix in _ARCHIVES and not output.is_dir():
        raise BundleError(f"{output}: give FILE{SUFFIX} for a single run, or a folder", code="invalid-value")
    if output and not single:
        output.mkdir(parents=True, exist_ok=True)
    for folder in {single.parent} if single else {output or run.parent for run in runs}:
        sweep(folder)
    for run in runs:
        try:
            archive = single or (output or run.parent) / (request.name(read_manifest(run).run) + SUFFIX)
            before = stands(archive, run, request)
            if single and single.exists() and not before:
                raise BundleError(
                    f"{single}: exists, and is not a complete bundle of this run; give another -o", code="exists"
                )
            yield Exported(run, archive if before else export(run, archive, request, begin), before)
        except (RuntimeError, OSError) as error:
            yield Exported(run, error=str(error))


def stands(archive: Path, run: Path, request: ExportRequest) -> bool:
    """Whether an archive is a complete bundle of the run's present state; False if missing or damaged.

    Raises BundleError if it is complete but a different bundle, which must not be replaced.
    """
    if not archive.exists():
        return False
    try:
        checked = check(archive)
    except BundleError:
        return False
    made, manifest = checked.manifest.bundle, read_manifest(run)
    of_this_state = made is not None and made.source == hash_file(run / MANIFEST).sha256
    if not (of_this_state or checked.manifest == manifest) or checked.manifest.run != request.name(manifest.run):
        raise BundleError(
            f"{archive}: a bundle of another run, or of an older state of this run; move it, or give -o", code="exists"
        )
    if not request.key or checked.key.endswith(f" {_fingerprint(request.key)}"):
        return True
    if checked.key:
        raise BundleError(f"{archive}: signed by another key, the {checked.key}; move it, or give -o", code="other-key")
    return False


def export(
    run: Path,
    output: Path | None = None,
    request: ExportRequest | None = None,
    begin: Begin = _silent,
) -> Path:
    """Check the run, write it as one archive and return its path (by default next to the run).

    The same run gives the same bytes, but for what `request` has drawn at random (anonymised payloads). An archive that
    is there is replaced. A signed run that was imported keeps manifest and signature, unless `request` changes it or
    signs it with another key. Raises BundleError when the run is not as its manifest says, or not all can be written,
    StoreError when a required file cannot be packed.
    """
    request = request or ExportRequest()
    output = output or run.parent / (request.name(read_manifest(run).run) + SUFFIX)
    scratch = scratch_of(output)
    with claimed(output) as archive, _emptied(scratch):
        checked = check(run)
        manifest = checked.manifest
        if _as_signed(checked, request):
            files = {name: run / name for name in manifest.files}
            done = begin(run, sum(entry.size for entry in manifest.files.values()))
            pack(manifest, files, archive, (run / SIGNATURE).read_bytes(), done, (run / MANIFEST).read_bytes())
            return output
        if checked.key and not request.key:
            _LOG.warning("%s: its signature does not cover the bundle; give --sign=KEY to sign the bundle", run)
        before = manifest.bundle
        left_out = [*(before.left_out if before else ())]
        files = {name: run / name for name in manifest.files if name != CRATE}
        manifest.run = request.name(manifest.run)
        done = begin(run, sum(manifest.files[name].size for name in files))
        if request.anonymise:
            from sojourn.harness.bundle.anonymise import anonymise

            manifest, files, left_out = anonymise(manifest, files, scratch)
        if request.without_video:  # which anonymised scores are computed from
            videos = [name for name in files if PurePosixPath(name).suffix in _VIDEO]
            left_out += videos
            files = {name: path for name, path in files.items() if name not in videos}
            _without_pictures(manifest, files, scratch)
        manifest.bundle = Bundled(
            source=hash_file(run / MANIFEST).sha256,
            anonymised=request.anonymise or bool(before and before.anonymised),
            without_video=request.without_video or bool(before and before.without_video),
            left_out=sorted({*left_out}),
        )
        described = _describe(manifest, files)
        check_complete(manifest, run)  # as whoever reads the bundle does
        signature = _signed(manifest_text(manifest), request.key) if request.key else None
        pack(manifest, {**files, CRATE: described}, archive, signature, done)
    return output


def _as_signed(checked: Checked, request: ExportRequest) -> bool:
    """Whether a run is an imported, signed bundle of which nothing else is requested: its signature is kept."""
    manifest = checked.manifest
    return bool(checked.key and manifest.bundle and not request.key and request.name(manifest.run) == manifest.run)


@contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    """Create an empty folder for the block, removing leftovers; the caller must hold the claim on the archive."""
    remove_tree(folder)
    folder.mkdir(mode=0o700)
    try:
        yield
    finally:
        remove_tree(folder)


def _without_pictures(manifest: Manifest, files: dict[str, Path], scratch: Path) -> None:
    """Replace the report by one without pictures of the recording."""
    from sojourn.harness.report.filmstrip import without_recording

    if REPORT in files:
        page = without_recording(files[REPORT].read_text(errors="replace"))
        files[REPORT] = scratch / "without-pictures.html"
        files[REPORT].write_text(page)
        manifest.files.pop(REPORT, None)


def _describe(manifest: Manifest, files: dict[str, Path]) -> bytes:
    """Hash the files and the crate that describes them into the manifest; return the crate."""
    manifest.files = {name: manifest.files.get(name) or hash_file(path) for name, path in files.items()}
    described = crate(manifest)
    manifest.files[CRATE] = FileEntry(sha256=hashlib.sha256(described).hexdigest(), size=len(described))
    manifest.files = dict(sorted(manifest.files.items()))
    return described


def _fingerprint(key: Path) -> str:
    try:
        return fingerprint(key)
    except SignatureError as error:
        raise BundleError(str(error), code=error.code) from error


def _signed(content: bytes, key: Path) -> bytes:
    try:
        return sign(content, key)
    except SignatureError as error:
        raise BundleError(str(error), code=error.code) from error
