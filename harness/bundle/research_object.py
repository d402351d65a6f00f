# SPDX-License-Identifier: Apache-2.0
"""Machine-readable metadata of a bundle: `ro-crate-metadata.json` (RO-Crate 1.2, one Process Run Crate action).

Written here rather than by the `rocrate` package: `rocrate` copies folders and stamps them with the time of packing,
while a bundle is streamed and the same run gives the same bytes; and it adds an HTTP client and a package unmaintained
since 2020.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from sojourn.harness.store.manifest import MANIFEST, FileEntry, Manifest
from sojourn.harness.store.reasons import joined
from sojourn.scoring.schema.files import CELL, FILES

CRATE = "ro-crate-metadata.json"
_SPECIFICATION = "https://w3id.org/ro/crate/1.2"
_PROFILE = "https://w3id.org/ro/wfrun/process/0.5"

_MEDIA = {
    ".mp4": "video/mp4", ".mkv": "video/matroska", ".json": "application/json", ".jsonl": "application/jsonl",
    ".html": "text/html", ".csv": "text/csv", ".log": "text/plain", ".pcapng": "application/x-pcapng",
    ".zst": "application/zstd", ".gz": "application/gzip",
}  # fmt: skip


class _Thing(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: str = Field(serialization_alias="@id")


class _Reference(_Thing):
    pass


class _Descriptor(_Thing):
    id: str = Field(default=CRATE, serialization_alias="@id")
    type: Literal["CreativeWork"] = Field(default="CreativeWork", serialization_alias="@type")
    about: _Reference = _Reference(id="./")
    conformsTo: _Reference = _Reference(id=_SPECIFICATION)


class _Value(_Thing):
    type: Literal["PropertyValue"] = Field(default="PropertyValue", serialization_alias="@type")
    name: str
    value: str | bool


class _File(_Thing):
    type: Literal["File"] = Field(default="File", serialization_alias="@type")
    name: str
    description: str | None = None
    contentSize: str | None = None
    sha256: str | None = None
    encodingFormat: str | None = None


class _Dataset(_Thing):
    id: str = Field(default="./", serialization_alias="@id")
    type: Literal["Dataset"] = Field(default="Dataset", serialization_alias="@type")
    name: str
    description: str
    datePublished: str
    license: _Reference = _Reference(id="#licence")
    conformsTo: _Reference = _Reference(id=_PROFILE)
    hasPart: list[_Reference]
    mentions: _Reference = _Reference(id="#run")
    additionalProperty: list[_Reference]


class _Named(_Thing):
    type: Literal["CreativeWork", "Person"] = Field(default="CreativeWork", serialization_alias="@type")
    name: str
    description: str | None = None
    version: str | None = None


class _Software(_Thing):
    id: str = Field(default="#sojourn", serialization_alias="@id")
    type: Literal["SoftwareApplication"] = Field(default="SoftwareApplication", serialization_alias="@type")
    name: str = "Sojourn"
    softwareVersion: str


class _Action(_Thing):
    id: str = Field(default="#run", serialization_alias="@id")
    type: Literal["CreateAction"] = Field(default="CreateAction", serialization_alias="@type")
    name: str
    description: str | None = None
    instrument: _Reference = _Reference(id="#sojourn")
    startTime: str
    endTime: str
    actionStatus: _Reference
    error: str | None = None
    result: list[_Reference]


class _Crate(BaseModel):
    context: str = Field(default=f"{_SPECIFICATION}/context", serialization_alias="@context")
    graph: list[_Thing] = Field(serialization_alias="@graph")


def crate(manifest: Manifest) -> bytes:
    """Return the bytes of `ro-crate-metadata.json` for a bundle with this manifest, which must have hashes."""
    files = [_Reference(id=quote(name)) for name in (MANIFEST, *_data(manifest))]
    finished = _time(manifest.finished or manifest.created)
    facts = {"status": manifest.status, "anonymised": bool(manifest.bundle and manifest.bundle.anonymised)}
    complete = manifest.status != "interrupted"
    graph: list[_Thing] = [
        _Descriptor(),
        _Dataset(
            name=manifest.run,
            description=_description(manifest),
            datePublished=finished,
            hasPart=files,
            additionalProperty=[_Reference(id=f"#{name}") for name in facts],
        ),
        _Named(id="#licence", name="none stated", description="The author of the run has stated no licence."),
        _Named(id=_PROFILE, name="Process Run Crate", version="0.5"),
        *(_Value(id=f"#{name}", name=name, value=value) for name, value in facts.items()),
        _Software(softwareVersion=f"git {manifest.git.commit}" if manifest.git else "unknown"),
        _Action(
            name=f"{manifest.test}: {manifest.cell}",
            description=" ".join(manifest.command_line) or None,
            startTime=_time(manifest.created),
            endTime=finished,
            actionStatus=_Reference(
                id=f"http://schema.org/{'CompletedActionStatus' if complete else 'FailedActionStatus'}"
            ),
            error=None if complete else joined(manifest.reasons),
            result=files[1:],
        ),
        _File(id=MANIFEST, name=MANIFEST, description="hashes of all files", encodingFormat="application/json"),
        *(_file(name, entry) for name, entry in _data(manifest).items()),
    ]
    whole = _Crate(graph=graph)
    return whole.model_dump_json(by_alias=True, exclude_none=True, serialize_as_any=True, indent=1).encode() + b"\n"


def _data(manifest: Manifest) -> dict[str, FileEntry]:
    return {name: entry for name, entry in sorted(manifest.files.items()) if name != CRATE}


def _file(name: str, entry: FileEntry) -> _File:
    path = PurePosixPath(name)
    return _File(
        id=quote(name),
        name=path.name,
        description=FILES[path.name].text if path.name in FILES else None,
        contentSize=str(entry.size),
        sha256=entry.sha256,
        encodingFormat=_MEDIA.get(path.suffix),
    )


def _description(manifest: Manifest) -> str:
    said = "The effect of a bottleneck queue on a victim that competes with bulk flows: the evidence of one run."
    if CELL in manifest.files:
        said = "The effect of a bottleneck queue on flows and probes: the evidence of one run of a matrix cell."
    if manifest.reasons:
        said += f" The run is {manifest.status}: {joined(manifest.reasons)}."
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
