# SPDX-License-Identifier: Apache-2.0
"""A run without what names its user, machines, sites and addresses, and with the same figures; docs/bundles.md.

An allow-list: what is kept is what some record declares (`sojourn.scoring.schema.records`), masked captures, the
probes' round trips and the recording. Logs, pages and all else stay out. Scores and report are computed from what is
kept.
"""

from __future__ import annotations

import gzip
import json
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sojourn.hardware.confine.decoder import trusted_files
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.json_text import bounded
from sojourn.harness.bundle.capture import mask_capture
from sojourn.harness.bundle.declared import declared
from sojourn.harness.bundle.pseudonyms import Pseudonyms
from sojourn.harness.options.model import BY_NAME, OPTIONS, Options, default_of
from sojourn.harness.options.record import words
from sojourn.harness.report.run_page import write_report
from sojourn.harness.store.evidence import removed_evidence
from sojourn.harness.store.loaded import load_scores, stored_object
from sojourn.harness.store.manifest import REPORT, Manifest
from sojourn.harness.store.reasons import Reason, of_gates
from sojourn.scoring import game
from sojourn.scoring.packets.latency import ROUND_TRIPS, ProbeError, round_trips
from sojourn.scoring.packets.pcapng import CaptureError
from sojourn.scoring.schema import records
from sojourn.scoring.schema.files import FILES
from sojourn.scoring.schema.records import RecordError
from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.scoring.score import score_run
from sojourn.scoring.sound.ear import SOUND
from sojourn.traffic.rpm_programs import PROBES_FILE

Keep = Callable[[Path, Path, Pseudonyms], None]
"""Writes what may stay of a file to another. Raises RuntimeError or ValueError where the file cannot be read."""

_KEY_BYTES = 32
#: Folders of a call's other end and of a room's other parties, and of a second video.
_FOLDERS = ("", "far", *(f"far-{party}" for party in range(3, 9)), "second")
#: Versions of Debian's packages, which nobody's machine has named; of anything else the numbers, or a digest.
_PACKAGE = ("guest ", "caddy", "chromium", "iperf3", "irtt", "iproute2", "tcpdump", "ffmpeg")
_REVISION = re.compile(r"(?:\d+:)?[\d.]+[-+~\w.]*")
_RELEASE = re.compile(r"v?\d{1,6}(?:\.\d{1,9}){1,4}(?![\w.])|v?\d{1,6}(?:\.\d{1,9}){1,4}|[0-9a-f]{12,64}\b")
_OPTIONS, _RECORDINGS = "options.json", ("screen.mp4", "screen.mkv")
_WITHHELD = Reason.of("withheld", "withheld: this bundle is anonymised")


class AnonymiseError(CodedError):
    """A run of which no anonymised bundle can be made; one line that says why."""


def anonymise(
    manifest: Manifest, files: Mapping[str, Path], folder: Path
) -> tuple[Manifest, dict[str, Path], list[str]]:
    """Write what may stay of the `files` (by their paths in the run) into `folder`, and score and report it again.

    Returns the manifest without names and hashes, the files by their paths, and what was left out: damaged, pruned and
    formerly excluded files by their names, the others by their number. Raises AnonymiseError, RecordError.
    """
    if "timeline.json" not in files:
        raise AnonymiseError(
            f"{manifest.run}: only runs with a victim can be anonymised: it has no timeline.json", code="no-victim"
        )
    names, made, damaged = Pseudonyms(), dict[str, Path](), list[str]()
    keepers = _keepers(secrets.token_bytes(_KEY_BYTES))

    def public(name: str) -> bool:
        folder, _, file = name.rpartition("/")
        return folder in _FOLDERS and (file in keepers or file in FILES)

    for name, source in files.items():
        keep = keepers.get(PurePosixPath(name).name)
        if keep is None or not public(name):
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            keep(source, target, names)
        except (CaptureError, RecordError, ProbeError, ValueError):
            target.unlink(missing_ok=True)
            damaged.append(name)
        else:
            made[name] = target
    scores = _scores(manifest, files, folder, names)
    fresh = _manifest(manifest, made.get(_OPTIONS), names, of_gates(scores.validity) if scores else [])
    fresh.required = [*filter(public, fresh.required)]
    if scores:
        made[SCORES] = folder / SCORES
        made[SCORES].write_text(scores.model_dump_json(indent=1) + "\n")
        write_report(folder, scores, fresh)
        made[REPORT] = folder / REPORT
    others = len(files.keys() - made.keys() - {*damaged})
    left_out = [*damaged, *filter(public, manifest.pruned), *_left_out_before(manifest, public)]
    return fresh, made, [*left_out, *([f"{others} logs and other files"] if others else [])]


def _left_out_before(manifest: Manifest, public: Callable[[str], bool]) -> list[str]:
    """Return what earlier bundles of the run excluded, without names that may be the user's."""
    if not (bundle := manifest.bundle):
        return []
    return bundle.left_out if bundle.anonymised else [*filter(public, bundle.left_out)]


def _scores(manifest: Manifest, files: Mapping[str, Path], folder: Path, names: Pseudonyms) -> Scores | None:
    """Score what was kept; if evidence was removed, return the run's scores with their texts replaced.

    None for a run without scores. Raises AnonymiseError if the verdict changes, RecordError.
    """
    if SCORES not in files:
        return None
    run = files[SCORES].parent
    if not removed_evidence(run, manifest):
        with trusted_files() if manifest.bundle is None else nullcontext():
            scores = score_run(folder)
        _check_verdict(run, scores)
        return scores
    document = load_scores(run).model_dump(mode="json")
    lab = declared(document.pop("lab"), records.LabRecord, names)
    return Scores.model_validate({**_texts(document, names), "lab": lab})


def _check_verdict(run: Path, scores: Scores) -> None:
    """Raise AnonymiseError if the run is valid by the stored scores and invalid by these, or the reverse."""
    validity = stored_object(run / SCORES).get("validity")
    before = validity.get("valid") if isinstance(validity, dict) else None
    if isinstance(before, bool) and before != scores.validity.valid:
        was, now = ("valid", "invalid") if before else ("invalid", "valid")
        why = "".join(f": {reason}" for reason in scores.validity.reasons[:1])
        raise AnonymiseError(
            f"{run}: its scores call it {was}, those of the anonymised files {now}{why}; nothing was written. "
            "If another scorer made the scores, run `sojourn rescore --write` first",
            code="altered",
        )


def _texts(value: Any, names: Pseudonyms) -> Any:
    if isinstance(value, dict):
        return {key: _texts(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_texts(item, names) for item in value]
    return names.text(value) if isinstance(value, str) else value


def _keepers(key: bytes) -> dict[str, Keep]:
    """Return what writes the part that may stay of each file, by the file's name."""
    one: dict[str, TypeAdapter[Any]] = {
        "timeline.json": records.TIMELINE,
        "lab.json": records.LAB,
        "screen.json": records.SCREEN,
        "bulk.json": records.BULK,
    }
    lines: dict[str, TypeAdapter[Any]] = {
        "player.jsonl": records.PLAYER,
        "qdisc.jsonl": records.QDISC,
        "ss.jsonl": records.SOCKETS,
        "ss-up.jsonl": records.SOCKETS,
        "host.jsonl": records.HOST,
        "router-clock.jsonl": records.ROUTER_CLOCK,
        PROBES_FILE: records.RPM,
        game.CLIENT: records.GAME,
        game.SERVER: records.GAME,
    }
    captures = (f"{side}.pcapng{packed}" for side in ("client", "server") for packed in ("", ".zst"))
    probes = (f"irtt{which}.json{packed}" for which in ("", "-ect1", "-unshaped") for packed in ("", ".gz"))

    def masked(source: Path, target: Path, names: Pseudonyms) -> None:
        mask_capture(source, target, names, key)

    return {
        **{name: partial(_one, shape) for name, shape in one.items()},
        **{name: partial(_lines, shape) for name, shape in lines.items()},
        **dict.fromkeys(captures, masked),
        **dict.fromkeys(probes, _round_trips),
        **dict.fromkeys((*_RECORDINGS, SOUND), _copied),  # the sound is Sojourn's tones or espeak-ng's speech
        _OPTIONS: _options,
    }


def _one(shape: TypeAdapter[Any], source: Path, target: Path, names: Pseudonyms) -> None:
    kept = declared(records.read(source, shape), shape._type, names)
    target.write_text(json.dumps(kept, indent=1) + "\n")


def _lines(shape: TypeAdapter[Any], source: Path, target: Path, names: Pseudonyms) -> None:
    kept = declared(records.read_lines(source, shape), shape._type, names)
    target.write_text("".join(json.dumps(line) + "\n" for line in kept))


def _round_trips(source: Path, target: Path, names: Pseudonyms) -> None:
    """Keep the round trips alone: irtt's own document begins with host, addresses and versions."""
    kept = {"round_trips": declared(round_trips(source), ROUND_TRIPS, names)}
    text = (json.dumps(kept) + "\n").encode()
    target.write_bytes(gzip.compress(text, mtime=0) if target.suffix == ".gz" else text)


def _copied(source: Path, target: Path, _: Pseudonyms) -> None:
    shutil.copyfile(source, target)


def _options(source: Path, target: Path, names: Pseudonyms) -> None:
    """Keep what was measured and how; paths, addresses, accounts and machines get their defaults.

    Of a user's program, the name and what it sends are kept, but neither commands nor files.

    Of a record of another version only what scoring reads is kept.
    """
    content = bounded(source.read_bytes())
    try:
        options = Options.model_validate_json(content, strict=True)
    except ValidationError:
        _one(records.OPTIONS, source, target, names)
        return
    target.write_text(json.dumps(_neutral(options).record(), indent=1) + "\n")


def _neutral(options: Options) -> Options:
    others = {
        option.field: default_of(option)
        for option in OPTIONS
        if option.stored and option.subject in ("who", "content") and option.field not in ("lab", "live")
    }
    withheld = {"server": "withheld {port}", "client": "withheld {port}", "files": {}}
    programs = tuple(program.model_copy(update=withheld) for program in options.programs)
    return options.replace(**others, programs=programs, results=Path("results"))


def _manifest(manifest: Manifest, options: Path | None, names: Pseudonyms, reasons: list[Reason]) -> Manifest:
    """Return the manifest with what is Sojourn's own; the command is made of the options that were kept."""
    command, cell = [_WITHHELD.text], names.text(manifest.cell)
    if options is not None and "service" in (record := json.loads(options.read_bytes())):
        named = words(record).items()
        given = {name: value for name, value in named if value and BY_NAME[name].subject != "who"}
        command = ["sojourn", "harm"]
        command += [f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items()]
        cell = Options.model_validate_json(json.dumps(record), strict=True).cell
    versions = {
        name: match[0]
        for name, text in manifest.versions.items()
        if not name.startswith("program ")
        and (match := (_REVISION.fullmatch(text) if name.startswith(_PACKAGE) else None) or _RELEASE.match(text))
    }
    if manifest.reasons and not reasons:
        reasons = [_WITHHELD]
    changes = {
        "test": names.text(manifest.test), "cell": cell, "command_line": command, "versions": versions,
        "reasons": reasons, "files": {}, "bundle": None, "pruned": {},
    }  # fmt: skip
    return manifest.model_copy(update=changes)
