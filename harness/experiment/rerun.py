# SPDX-License-Identifier: Apache-2.0
"""Repeat a simulated run from its manifest, and compare the bytes."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

from sojourn.hardware.lab.lab_file import LABS
from sojourn.hardware.machine.errors import Code, CodedError
from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.programs import FLAGS
from sojourn.hardware.simulation import ONE_PROCESSOR
from sojourn.harness.experiment.run import perform
from sojourn.harness.lab.machine import SHOWN_PROCESSOR, SYSTEM_CALLS
from sojourn.harness.options.errors import OptionsError, VersionError
from sojourn.harness.options.model import Options
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.options.record import restored, words
from sojourn.harness.options.sources import is_path
from sojourn.harness.store.integrity import verify_run
from sojourn.harness.store.loaded import stored_object
from sojourn.harness.store.manifest import LARGEST, PARTIAL, FileEntry, Manifest, read_manifest
from sojourn.harness.store.reasons import joined
from sojourn.harness.store.same_bytes import NOT_COMPARED
from sojourn.scoring.schema.files import OPTIONS
from sojourn.scoring.schema.scores import SCORES

YOURS = ("kernel-source", "iproute2-source", "clip", "url", "script")
"""Path options of a simulated run. Only the command line may determine which files are read, built or run."""
IN_REAL_TIME = "was executed in the {lab} lab: only simulated time can reproduce the bytes"
"""Why a run of a lab in real time is refused."""
#: Maximum length of an error about a record, which may have any content.
_LONGEST = 400
_MACHINE = (
    *("kernel source", "kernel build", "guest", "sources", SYSTEM_CALLS, SHOWN_PROCESSOR),
    *("film", "second film", "processor", FLAGS, "ffmpeg"),
)
#: Parts of the cache, which are the same in a copy of it.
_CACHED = ("kernel source", "kernel build", "guest", "film", "second film")


class RerunError(CodedError):
    """The run cannot be repeated; one line that says why."""


@dataclass(frozen=True)
class FileComparison:
    """Names of the files that are identical, that differ, and that only one run has."""

    same: tuple[str, ...]
    other: tuple[str, ...]
    missing: tuple[str, ...]


def run_to_repeat(run: Path, yours: Mapping[str, Path] = MappingProxyType({})) -> tuple[Manifest, Options]:
    """Return manifest and options of a finished run in simulated time with unaltered files.

    A run may come from a third party: of a path in its record, only the option counts; `yours` has the path.
    Raises as `repeatable`, and RerunError.
    """
    manifest = repeatable(run)
    if OPTIONS not in manifest.files:
        raise RerunError(f"{run}: has no {OPTIONS}, so its options are unknown", code="missing")
    if manifest.files[OPTIONS].size > LARGEST or not (record := stored_object(run / OPTIONS)):
        raise RerunError(f"{run}: {OPTIONS}: holds no options; was the file altered?", code="damaged")
    if (lab := record.get("lab")) in LABS and lab != "sim":
        raise RerunError(f"{run}: {IN_REAL_TIME.format(lab=lab)}", code="real-time")
    try:
        return manifest, restored(_with_yours(run, record, yours))
    except OptionsError as wrong:
        why = f"{run}: {printable(str(wrong))[:_LONGEST]}"
        if isinstance(wrong, VersionError) and manifest.git:
            why += f"; recorded at commit {printable(manifest.git.commit[:12])}; rerun it there"
        raise RerunError(why, code=wrong.code) from wrong


def repeatable(run: Path) -> Manifest:
    """Return the manifest of a finished, valid run whose files are those that were recorded.

    Raises RerunError, and IntegrityError that names an altered file.
    """
    if (manifest := read_manifest(run)).status != "valid" or run.suffix == PARTIAL:
        why = f" ({joined(manifest.reasons)})" if manifest.reasons else ""
        code: Code = "invalid-run" if manifest.status == "void" else "unfinished"
        raise RerunError(f"{run}: is {manifest.state}{why}: only a valid run can be repeated", code=code)
    if manifest.bundle and manifest.bundle.anonymised:
        raise RerunError(
            f"{run}: is anonymised, so its files differ from the recorded ones; use the original run", code="anonymised"
        )
    verify_run(run)
    return manifest


def _with_yours(run: Path, record: Mapping[str, Any], yours: Mapping[str, Path]) -> dict[str, Any]:
    """Return a record with every path replaced by the user's. Raises RerunError."""
    try:
        given = words(record)
    except (KeyError, ValueError):  # which reading the record tells in full
        given = {}
    has = {name: str(text) for name in YOURS if (text := given.get(name)) and is_path(name, text)}
    if without := [name for name in yours if name not in has]:
        raise RerunError(f"{run}: was recorded without --{without[0]}; omit it", code="no-effect")
    if missing := [f"--{name}={shlex.quote(text)}" for name, text in has.items() if name not in yours]:
        raise RerunError(
            f"{run}: was recorded with files that it does not contain; if you trust them, add: "
            f"{printable(' '.join(missing))[:_LONGEST]}",
            code="confirm-files",
        )
    paths = {name: path.expanduser().resolve() for name, path in yours.items()}
    for name, path in paths.items():
        if folder := next((it for it in (run.absolute(), run.resolve()) if path.is_relative_to(it.parent)), None):
            raise RerunError(
                f"--{name}: {path} is part of the run, in {folder.parent}; give your own file", code="untrusted-file"
            )
    return {**record, **{name.replace("-", "_"): str(path) for name, path in paths.items()}}


def rerun(
    run: Path,
    results: Path | None,
    terminal: TextIO,
    yours: Mapping[str, Path] = MappingProxyType({}),
) -> tuple[Path, FileComparison, list[str]]:
    """Repeat `run` on this machine, whatever its engine, in the folder `results` (default: next to it).

    `yours` are the paths of the options in YOURS that it was recorded with. Returns where, how the files compare, and
    what of the machine is not the same, each in words. Raises as `run_to_repeat` and
    `sojourn.harness.experiment.run.perform`.
    """
    manifest, options = run_to_repeat(run, yours)
    repeated = options.replace(results=(results or run.parent).resolve(), engine=LOCAL)
    again = perform(manifest.test, repeated, ["sojourn", "rerun", manifest.run], terminal)
    fresh = read_manifest(again.path)
    # Files that were pruned or excluded from a bundle are not differences.
    gone = manifest.bundle.left_out if manifest.bundle else ()
    files = compared(manifest.files | manifest.pruned, fresh.files, gone)
    lines = [*unlike(manifest.versions, fresh.versions), *commits(manifest, fresh), *scorers(run, again.path)]
    return again.path, files, [with_remedy(line, manifest) for line in lines] if files.other or files.missing else lines


def compared(
    first: Mapping[str, FileEntry], second: Mapping[str, FileEntry], unknown: Collection[str] = ()
) -> FileComparison:
    """Compare two runs' files by hash, except those that depend on place and time, and the `unknown` ones."""
    names = sorted((set(first) | set(second)) - {*NOT_COMPARED, *unknown})
    both = [name for name in names if name in first and name in second]
    return FileComparison(
        tuple(name for name in both if first[name] == second[name]),
        tuple(name for name in both if first[name] != second[name]),
        tuple(name for name in names if name not in both),
    )


def unlike(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return what determines the bytes and differs in two manifests' versions: `guest: a, now b`.

    The host's processor does not count if the programs of both runs saw the same one instead.
    """
    hidden = {"processor", FLAGS} if ONE_PROCESSOR == first.get(SHOWN_PROCESSOR) == second.get(SHOWN_PROCESSOR) else ()
    return [
        _flags(first.get(name), second.get(name))
        if name == FLAGS
        else f"{name}: {first.get(name, 'unknown')}, now {second.get(name, 'unknown')}"
        for name in _MACHINE
        if name not in hidden and first.get(name) != second.get(name)
    ]


def _flags(first: str | None, second: str | None) -> str:
    """Return the features that only one of two processors has."""
    if first is None or second is None:
        return f"{FLAGS}: {'unknown' if first is None else 'known'}, now {'unknown' if second is None else 'known'}"
    before, now = set(first.split()), set(second.split())
    return (
        f"{FLAGS}: only then {' '.join(sorted(before - now)) or '-'}, only now {' '.join(sorted(now - before)) or '-'}"
    )


def commits(first: Manifest, second: Manifest) -> list[str]:
    """Return the commit of the first run's sources, if the sources differ."""
    name = "sources"
    if not (first.git and first.versions.get(name) != second.versions.get(name)):
        return []
    changed = " with uncommitted changes" if first.git.dirty else ""
    return [f"commit: {first.git.commit[:12]}{changed}, now {second.git.commit[:12] if second.git else 'unknown'}"]


def scorers(first: Path, second: Path) -> list[str]:
    """Return the scorers of two runs, if they differ."""
    before, now = ((stored_object(run / SCORES) or {}).get("scorer", "unknown") for run in (first, second))
    return [] if before == now else [f"scorer: {printable(str(before))[:_LONGEST]}, now {now}"]


def with_remedy(line: str, first: Manifest) -> str:
    """Return a difference with the remedy to reproduce the bytes of the `first` run, if known."""
    name = line.partition(": ")[0]
    if name in _CACHED:
        return f"{line}; copy the cache of the machine that executed the run, and set SOJOURN_CACHE to the copy"
    if name == "commit" and first.git and first.git.commit.isalnum():
        return f"{line}; `git checkout {first.git.commit[:12]}` and rerun"
    if name == "scorer":
        return f"{line}; run `sojourn rescore RUN` to recompute the first run's scores"
    return line
