# SPDX-License-Identifier: Apache-2.0
"""A simulated run made again from what its manifest says, and whether the bytes are the same."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from apps.base import Service
from hardware.machine.programs import FLAGS
from harness.bundle.archive import verify
from harness.bundle.research_object import CRATE
from harness.experiment.options import Options, restored
from harness.experiment.run import OPTIONS_FILE, perform
from harness.report.run_page import REPORT
from harness.store.manifest import PARTIAL, FileEntry, Manifest, read_manifest

NOT_COMPARED = (OPTIONS_FILE, REPORT, CRATE)
"""Files that tell where and when a run was made, or came to it with a bundle."""
_MACHINE = ("kernel source", "kernel build", "guest", "sources", "film", "processor", FLAGS, "ffmpeg")


class RerunError(RuntimeError):
    """The run cannot be made again; one line that says why."""


@dataclass(frozen=True)
class Compared:
    """Names of the files that both runs have with the same bytes, with others, and that only one has."""

    same: tuple[str, ...]
    other: tuple[str, ...]
    missing: tuple[str, ...]


def asked_of(run: Path) -> tuple[Manifest, Options]:
    """Return manifest and options of a finished run in simulated time whose files are as they were made.

    Raises RerunError, OptionsError, and BundleError naming a file that was changed.
    """
    if (manifest := read_manifest(run)).status != "valid" or run.suffix == PARTIAL:
        why = f" ({'; '.join(manifest.reasons)})" if manifest.reasons else ""
        raise RerunError(f"{run}: is {manifest.status}{why}: only a valid run can be made again")
    if manifest.bundle and manifest.bundle.anonymised:
        raise RerunError(f"{run}: is anonymised: its files are not those that were recorded; take the run itself")
    verify(run)
    if OPTIONS_FILE not in manifest.files:
        raise RerunError(f"{run}: has no {OPTIONS_FILE}: what was asked is not known")
    options = restored(json.loads((run / OPTIONS_FILE).read_bytes()))
    here = {"--clip": options.clip, "--script": options.script, "--kernel-source": options.kernel_source}
    if options.own_folder:
        here["--url"] = Path(options.url)
    if manifest.bundle and (others := [f"{name}={path}" for name, path in here.items() if path]):
        raise RerunError(f"{run}: came in a bundle, and was made with files of another machine: {', '.join(others)}")
    if options.kernel_source and not options.kernel_source.is_file():
        raise RerunError(f"{run}: its kernel was built from {options.kernel_source}, which is not here; put it there")
    if options.lab != "sim":
        raise RerunError(f"{run}: was made in the {options.lab} lab: only simulated time gives the same bytes again")
    return manifest, options


def rerun(
    run: Path, results: Path | None, services: Mapping[str, type[Service]], terminal: TextIO
) -> tuple[Path, Compared, list[str]]:
    """Make `run` again in the folder `results` (default: beside it).

    Returns where, how the files compare, and what of the machine is not the same, each in words. Raises as
    `asked_of` and `harness.experiment.run.perform`.
    """
    manifest, options = asked_of(run)
    again = perform(
        manifest.test, options.but(results=(results or run.parent).resolve()), services,
        ["sojourn", "rerun", manifest.run], terminal,
    )  # fmt: skip
    fresh = read_manifest(again.path)
    # What was pruned, or left out of a bundle, is no difference.
    gone = manifest.bundle.left_out if manifest.bundle else ()
    files = compared(manifest.files | manifest.pruned, fresh.files, gone)
    return again.path, files, [*unlike(manifest.versions, fresh.versions), *commits(manifest, fresh)]


def compared(
    first: Mapping[str, FileEntry], second: Mapping[str, FileEntry], unknown: Collection[str] = ()
) -> Compared:
    """Compare two runs' files by their hashes, but for those that tell where and when, and the `unknown` ones."""
    names = sorted((set(first) | set(second)) - {*NOT_COMPARED, *unknown})
    both = [name for name in names if name in first and name in second]
    return Compared(
        tuple(name for name in both if first[name] == second[name]),
        tuple(name for name in both if first[name] != second[name]),
        tuple(name for name in names if name not in both),
    )


def unlike(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """What decides the bytes and is not the same in two manifests' versions: `guest: a, now b`."""
    return [
        _flags(first.get(name), second.get(name))
        if name == FLAGS
        else f"{name}: {first.get(name, 'not told')}, now {second.get(name, 'not told')}"
        for name in _MACHINE
        if first.get(name) != second.get(name)
    ]


def _flags(first: str | None, second: str | None) -> str:
    """What only one of two processors can do."""
    if first is None or second is None:
        return f"{FLAGS}: {'not told' if first is None else 'told'}, now {'not told' if second is None else 'told'}"
    before, now = set(first.split()), set(second.split())
    return (
        f"{FLAGS}: only then {' '.join(sorted(before - now)) or '-'}, only now {' '.join(sorted(now - before)) or '-'}"
    )


def commits(first: Manifest, second: Manifest) -> list[str]:
    """Where the sources are not the same, which commit has those of the first run."""
    name = "sources"
    if not (first.git and first.versions.get(name) != second.versions.get(name)):
        return []
    changed = " with changes that were not committed" if first.git.dirty else ""
    return [f"commit: {first.git.commit[:12]}{changed}, now {second.git.commit[:12] if second.git else 'not told'}"]
