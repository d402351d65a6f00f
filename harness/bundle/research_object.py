# SPDX-License-Identifier: Apache-2.0
"""Machine-readable metadata of a bundle: `ro-crate-metadata.json` (RO-Crate 1.2, one Process Run Crate action).

Written here rather than by the `rocrate` package: `rocrate` copies folders and stamps them with the time of packing,
while a bundle is streamed and the same run gives the same bytes; and it adds an HTTP client and a package unmaintained
since 2020.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from sojourn.harness.store.manifest import CRATE, MANIFEST, FileEntry, Manifest
from sojourn.harness.store.reasons import joined
from sojourn.scoring.schema.files import CELL, FILES

_SPECIFICATION = "https://w3id.org/ro/crate/1.2"
_PROFILE = "https://w3id.org/ro/wfrun/process/0.5"

_MEDIA = {
    ".mp4": "video/mp4", ".mkv": "video/matroska", ".json": "application/json", ".jsonl": "application/jsonl",
    ".html": "text/html", ".csv": "text/csv", ".log": "text/plain", ".pcapng": "application/x-pcapng",
    ".zst": "application/zstd", ".gz": "application/gzip",
}  # fmt: skip


def crate(manifest: Manifest) -> bytes:
    """Return the bytes of `ro-crate-metadata.json` for a bundle with this manifest, which must have hashes."""
    data = {name: entry for name, entry in sorted(manifest.files.items()) if name != CRATE}
    files = [_id(quote(name)) for name in (MANIFEST, *data)]
    finished = _time(manifest.finished or manifest.created)
    facts = {"status": manifest.status, "anonymised": bool(manifest.bundle and manifest.bundle.anonymised)}
    complete = manifest.status != "interrupted"
    graph = [
        _thing(CRATE, "CreativeWork", about=_id("./"), conformsTo=_id(_SPECIFICATION)),
        _thing(
            "./", "Dataset", name=manifest.run, description=_description(manifest), datePublished=finished,
            license=_id("#licence"), conformsTo=_id(_PROFILE), hasPart=files, mentions=_id("#run"),
            additionalProperty=[_id(f"#{name}") for name in facts],
        ),
        _thing(
            "#licence", "CreativeWork", name="none stated",
            description="The author of the run has stated no licence.",
        ),
        _thing(_PROFILE, "CreativeWork", name="Process Run Crate", version="0.5"),
        *(_thing(f"#{name}", "PropertyValue", name=name, value=value) for name, value in facts.items()),
        _thing(
            "#sojourn", "SoftwareApplication", name="Sojourn",
            softwareVersion=f"git {manifest.git.commit}" if manifest.git else "unknown",
        ),
        _thing(
            "#run", "CreateAction", name=f"{manifest.test}: {manifest.cell}",
            description=" ".join(manifest.command_line) or None, instrument=_id("#sojourn"),
            startTime=_time(manifest.created), endTime=finished,
            actionStatus=_id(f"http://schema.org/{'Completed' if complete else 'Failed'}ActionStatus"),
            error=None if complete else joined(manifest.reasons), result=files[1:],
        ),
        _thing(
            MANIFEST, "File", name=MANIFEST, description="hashes of all files", encodingFormat="application/json"
        ),
        *(_file(name, entry) for name, entry in data.items()),
    ]  # fmt: skip
    whole = {"@context": f"{_SPECIFICATION}/context", "@graph": graph}
    return json.dumps(whole, ensure_ascii=False, indent=1).encode() + b"\n"


def _id(name: str) -> dict[str, Any]:
    return {"@id": name}


def _thing(name: str, kind: str, /, **properties: Any) -> dict[str, Any]:
    """Return an entity without the properties that are None."""
    known = {key: value for key, value in properties.items() if value is not None}
    return {"@id": name, "@type": kind, **known}


def _file(name: str, entry: FileEntry) -> dict[str, Any]:
    path = PurePosixPath(name)
    return _thing(
        quote(name), "File", name=path.name, description=FILES[path.name].text if path.name in FILES else None,
        contentSize=str(entry.size), sha256=entry.sha256, encodingFormat=_MEDIA.get(path.suffix),
    )  # fmt: skip


def _description(manifest: Manifest) -> str:
    said = "The effect of a bottleneck queue on a victim that competes with bulk flows: the evidence of one run."
    if CELL in manifest.files:
        said = "The effect of a bottleneck queue on flows and probes: the evidence of one run of a matrix cell."
    if manifest.reasons:
        said += f" The run is {manifest.state}: {joined(manifest.reasons)}."
    if manifest.bundle and manifest.bundle.anonymised:
        said += (
            " Anonymised: addresses, names of hosts and accounts, sites and sessions are replaced; packets hold headers"
            " only; a recording of the screen is unchanged."
        )
    if manifest.bundle and manifest.bundle.left_out:
        said += f" Excluded: {', '.join(manifest.bundle.left_out)}."
    return said


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
