# SPDX-License-Identifier: Apache-2.0
"""Check the stored scores of a run against its raw files; computed scores are cached."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from sojourn.hardware.machine import cache
from sojourn.hardware.machine.files import LOCK, replace_file
from sojourn.hardware.machine.json_text import bounded
from sojourn.hardware.machine.programs import package_versions
from sojourn.harness.bundle.archive import check, unpacked
from sojourn.harness.engine.provenance import source_files
from sojourn.harness.experiment.rescore import (
    NotComputedError,
    check_judges,
    differences,
    scorer_now,
    scorer_of,
    scores_from_files,
)
from sojourn.harness.report.filmstrip import without_pictures
from sojourn.harness.store.evidence import missing_evidence, removed_evidence
from sojourn.harness.store.integrity import Checked
from sojourn.harness.store.loaded import load_run_scores
from sojourn.harness.store.manifest import REPORT, Manifest, StoreError, check_complete
from sojourn.scoring.evidence import Setting
from sojourn.scoring.picture.judged import QUALITY
from sojourn.scoring.schema.files import CELL
from sojourn.scoring.schema.records import RecordError
from sojourn.scoring.schema.scores import SCORER, SCORES, Scores
from sojourn.scoring.score import score_run
from sojourn.scoring.sound.ear import SOUND
from sojourn.scoring.sound.judged_speech import SPEECH

#: Differing values that an error names.
_SHOWN = 2
#: Bytes of computed scores to keep, most recently used first; a run's scores have about ten thousand, compressed.
_MOST_BYTES = 64 << 20
_LARGEST = 64 << 20
#: Runs of experiments and of cells have at least one of these; other tests may keep runs without scores.
_OF_EXPERIMENTS = {"timeline.json", "lab.json", CELL}


class ScoreError(StoreError):
    """The stored scores of a run do not match its raw files; one line with the first differences."""


@dataclass(frozen=True)
class Verified:
    """A bundle or a run that matches its manifest and whose scores are those that its raw files give."""

    checked: Checked
    not_computed: str = ""
    """Why the scores were not recomputed; empty if they were."""
    other_page: bool | None = False
    """Whether its report differs from the page that its scores give here: it may show any figure and run scripts.

    The pictures in it are not compared. None if a report was not compared, because the scores were not recomputed.
    """


def verified(
    path: Path, signers: Path | None = None, *, rescore: bool = True, page_of: Callable[[Path, Manifest], str]
) -> Verified:
    """Check a bundle or a run as `check` does, its scores, and whether its report is what `page_of` returns.

    Raises BundleError, and ScoreError as `check_scores`.
    """
    if not rescore:
        checked = check(path, signers=signers)
        return Verified(checked, "--no-rescore", _no_page(checked.manifest))
    with ExitStack() as stack:
        if path.is_dir():
            run, checked = path, check(path, signers=signers)
        else:
            run, checked = stack.enter_context(unpacked(path, signers))
        if why := why_not_computed(run, checked.manifest, path):
            return Verified(checked, why, _no_page(checked.manifest))
        made = page_of(run, checked.manifest) if REPORT in checked.manifest.files else None
        stored = (run / REPORT).read_text(errors="replace") if made is not None else ""
        return Verified(checked, "", without_pictures(made or "") != without_pictures(stored))


def _no_page(manifest: Manifest) -> bool | None:
    """Return `other_page` of a run whose scores were not recomputed."""
    return None if REPORT in manifest.files else False


def why_not_computed(run: Path, manifest: Manifest, path: Path) -> str:
    """Check the scores of a run that is at `path`, or in the archive there; return why not, empty if they were.

    Raises ScoreError as `check_scores`, naming `path`.
    """
    try:
        check_scores(run, manifest)
    except NotComputedError as why:
        return str(why).replace(str(run), str(path)).removeprefix(f"{path}: ")
    except StoreError as wrong:
        raise ScoreError(str(wrong).replace(str(run), str(path)), code=wrong.code) from wrong
    return ""


def check_scores(run: Path, manifest: Manifest) -> None:
    """Recompute the scores of a run with verified files, and compare them.

    Raises ScoreError if the stored ones differ, a file that a gate needs is missing, or judged pictures or speech have
    no recording; NotComputedError if there is nothing to compute them from, or nothing to compare them with.
    """
    _check_pictures(run, manifest)
    if SCORES not in manifest.files or not manifest.files.keys() & _OF_EXPERIMENTS:
        raise NotComputedError(f"{run}: has no {SCORES} of an experiment", code="missing")
    check_judges(run, manifest)
    stored = _stored(run, manifest)
    try:
        _check_evidence(run, manifest)
        fresh = _fresh(run, manifest)
    except RecordError as damaged:
        why = str(damaged).replace(f"{run}/", "")
        raise ScoreError(f"{run}: {SCORES} cannot be computed from its raw files: {why}", code="damaged") from damaged
    changes = [line.removeprefix("scores.") for line in differences(stored, fresh)]
    other = [line for line in changes if not line.startswith("scorer: ")]
    if not other and {**stored, "scorer": SCORER} != {**fresh, "scorer": SCORER}:
        other = ["its entries are in another order"]
    if not other:
        load_run_scores(run, manifest)  # as whoever shows them does
        return
    more = f" and {len(other) - _SHOWN} more" if len(other) > _SHOWN else ""
    shown = f"{'; '.join(other[:_SHOWN])}{more}"
    before, now = scorer_of(stored, manifest), scorer_now(run, manifest)
    if before != now:
        raise NotComputedError(
            f"{run}: the scores of scorer {before or 'none'} differ from those of this one, {now}: {shown}; "
            "`sojourn rescore --write RUN` replaces them",
            code="other-version",
        )
    raise ScoreError(f"{run}: {SCORES} is not what its raw files give: {shown}", code="altered")


def unchecked_pictures(manifest: Manifest) -> str:
    """Return that the judged pictures and speech of a run are not recomputed; empty for a run without."""
    commands = {QUALITY: "sojourn quality RUN", SPEECH: "sojourn quality RUN --speech"}
    return ", ".join(f"{name} NOT recomputed (`{it}`)" for name, it in commands.items() if name in manifest.files)


def _check_pictures(run: Path, manifest: Manifest) -> None:
    """Raise ScoreError for judged pictures or speech of a run that never had them."""
    recorded = {*manifest.files, *manifest.pruned, *(manifest.bundle.left_out if manifest.bundle else ())}
    for name, what, source in ((QUALITY, "pictures", "screen.mp4"), (SPEECH, "speech", SOUND)):
        if name in manifest.files and source not in recorded:
            raise ScoreError(
                f"{run}: {name}: judges {what}, but the run never had a recording ({source})", code="altered"
            )
    if SPEECH in manifest.files and not _spoke(run):
        raise ScoreError(f"{run}: {SPEECH}: judges speech, but nobody spoke in the run (lab.json)", code="altered")


def _spoke(run: Path) -> bool:
    with suppress(RecordError):
        return Setting.read(run).speech is not None
    return False


def _stored(run: Path, manifest: Manifest) -> dict[str, Any]:
    """Return the scores stored in a run, which may come from a third party. Raises ScoreError."""
    with suppress(ValueError, RecursionError):
        if manifest.files[SCORES].size <= _LARGEST:
            stored = json.loads(bounded((run / SCORES).read_bytes()), object_pairs_hook=_named_once)
            if isinstance(stored, dict):
                return stored
    raise ScoreError(
        f"{run}: {SCORES}: holds no scores; run `sojourn rescore --write` to compute them from the raw files",
        code="missing",
    )


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; raises ValueError for a name that it has twice, of which readers take one or the other."""
    if len(named := dict(pairs)) < len(pairs):
        raise ValueError("a name stands there twice")
    return named


def _check_evidence(run: Path, manifest: Manifest) -> None:
    """Check for the files without which a run is invalid.

    Raises NotComputedError if one was pruned or excluded from a bundle, StoreError if it is missing in a valid run.
    """
    if CELL in manifest.files:
        check_complete(manifest, run)
        return
    if removed := removed_evidence(run, manifest):
        raise NotComputedError(
            f"{run}: {', '.join(removed)}: pruned to free space, or excluded from the bundle", code="pruned"
        )
    if manifest.status == "valid":
        check_complete(manifest, run, *(names[0] for names in missing_evidence(run, manifest)))


def _fresh(run: Path, manifest: Manifest) -> Any:
    """Return the scores computed from the raw files, as JSON data."""
    if CELL in manifest.files:
        return scores_from_files(run, manifest)
    folder = cache.root() / "scores"
    file = folder / f"{_key(manifest)}.json.zst"
    with suppress(OSError, ValueError, RecursionError, zstandard.ZstdError, cache.BuildError):
        cache.check_owner()
        kept = zstandard.ZstdDecompressor().decompress(file.read_bytes(), max_output_size=_LARGEST)
        Scores.model_validate_json(kept)
        os.utime(file)
        return json.loads(kept)
    text = score_run(run).model_dump_json()
    with suppress(OSError, cache.BuildError):  # a read-only cache only costs time
        cache.check_owner()
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(file, zstandard.ZstdCompressor(write_checksum=True).compress(text.encode()))
        _bound(folder)
    return json.loads(text)


def _key(manifest: Manifest) -> str:
    """Return a digest of what determines the scores: raw files, scorer, its sources and packages, further judges."""
    raw = {name: entry.sha256 for name, entry in manifest.files.items() if name not in (SCORES, REPORT)}
    named = {"scorer": SCORER, **raw, **package_versions()}
    parts = [*source_files("sojourn.scoring.score").contents(), ("packages", LOCK.read_bytes())]
    return cache.digest([*parts, *((f"named {name}", text.encode()) for name, text in named.items())])


def _bound(folder: Path) -> None:
    """Remove the least recently used scores until the rest is small enough."""
    kept = sorted(((path.stat(), path) for path in folder.iterdir()), key=lambda it: it[0].st_mtime, reverse=True)
    total = 0
    for status, path in kept:
        total += status.st_size
        if total > _MOST_BYTES:
            path.unlink(missing_ok=True)
